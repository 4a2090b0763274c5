"""`SparseTensor` as programs make and read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zrt.onnxruntime.state import sparse as state

if TYPE_CHECKING:
    from zrt.onnxruntime.devices import OrtDevice
    from zrt.onnxruntime.enums import OrtSparseFormat


class SparseTensor:
    """A tensor that is mostly zeros: its values and their places."""

    def __init__(self, sparse_tensor: state.SparseTensor) -> None:
        if not isinstance(sparse_tensor, state.SparseTensor):
            raise ValueError(
                "`Provided object` needs to be of type `onnxruntime.capi.onnxruntime_pybind11_state.SparseTensor`"
            )
        self._tensor = sparse_tensor

    def _get_c_tensor(self) -> state.SparseTensor:
        return self._tensor

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Any, values: Any, coo_indices: Any, ort_device: OrtDevice
    ) -> SparseTensor:
        """A tensor in the format COO.

        `values` is [n]. `coo_indices`, of int64, is [n] with places in the flattened tensor, or [n, 2] (or flat, 2n)
        with rows and columns. The tensor shares the memory of the values, but for strings, and keeps it alive.
        """
        device = ort_device._get_c_device()
        return cls(state.SparseTensor.sparse_coo_from_numpy(dense_shape, values, coo_indices, device))

    @classmethod
    def sparse_csr_from_numpy(
        cls, dense_shape: Any, values: Any, inner_indices: Any, outer_indices: Any, ort_device: OrtDevice
    ) -> SparseTensor:
        """A matrix in the format CSR.

        `values` and `inner_indices`, the columns, are [n]; `outer_indices` is [rows + 1], the place at which each row
        begins and the last one ends. The matrix shares the memory of the values, but for strings, and keeps it alive.
        """
        device = ort_device._get_c_device()
        made = state.SparseTensor.sparse_csr_from_numpy(dense_shape, values, inner_indices, outer_indices, device)
        return cls(made)

    def values(self) -> Any:
        """The values as a read-only view of their memory; strings as a new array."""
        return self._tensor.values()

    def as_coo_view(self) -> state.SparseCooView:
        """The indices of the format COO; raises `RuntimeError` for another format."""
        return self._tensor.get_coo_data()

    def as_csrc_view(self) -> state.SparseCsrView:
        """The indices of the format CSR; raises `RuntimeError` for another format."""
        return self._tensor.get_csrc_data()

    def as_blocksparse_view(self) -> state.SparseBlockSparseView:
        """The indices of blocks; raises `RuntimeError` for another format."""
        return self._tensor.get_blocksparse_data()

    def to_cuda(self, ort_device: OrtDevice) -> SparseTensor:
        """Raises `RuntimeError`: ONNX Runtime's C interface copies no sparse tensor to a device."""
        return SparseTensor(self._tensor.to_cuda(ort_device._get_c_device()))

    def format(self) -> OrtSparseFormat:
        """How the indices are stored."""
        return self._tensor.format

    def dense_shape(self) -> list[int]:
        """The shape that the tensor stands for."""
        return self._tensor.dense_shape()

    def data_type(self) -> str:
        """The type, for example "sparse_tensor(float)"."""
        return self._tensor.data_type()

    def device_name(self) -> str:
        """The name of the device with the content, in lower case: "cpu"."""
        return self._tensor.device_name().lower()

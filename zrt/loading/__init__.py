"""From a model in any form to an ``OrtSession``: options, sources, weights, adapters."""

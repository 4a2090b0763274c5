/* Ahead of each assembler file: where its code begins within a cache line, whatever the linker puts before it. */
.text
.p2align 6
.skip 48

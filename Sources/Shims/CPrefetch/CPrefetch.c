// All functions of this shim are inline, in its header.

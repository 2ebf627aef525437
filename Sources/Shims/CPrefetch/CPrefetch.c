// The shim is all in its header.

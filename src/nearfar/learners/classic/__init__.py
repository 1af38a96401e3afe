"""The methods that others are compared with: closed forms, LMNN, ITML and their kin."""

"""Machine code of functions: made once on a machine, kept, and loaded without the compiler."""

package pow2

import "math/bits"

// Ceil returns the smallest power of two that is at least n, and 1 if n is less
// than 1.
func Ceil(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// Is reports whether n is a power of two.
func Is(n int) bool { return n > 0 && n&(n-1) == 0 }

package floor

// bypasses reports whether bypassCaches does.
const bypasses = true

// bypassCaches sets all words of b, which is made of whole cache lines, to value with stores that
// bypass the caches (MOVNTDQ).
//
// A plain store first requests the line's ownership, and a line that the reader of the last lap has
// in its cache is fetched from there. Between far cores that takes ten times as long as to write
// the line to memory and to read it there.
//
//go:noescape
func bypassCaches(b []byte, value uint64)

// storeFence orders the stores of bypassCaches before all later stores.
func storeFence()

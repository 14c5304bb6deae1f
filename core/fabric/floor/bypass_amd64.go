package floor

// bypasses reports whether bypassCaches does.
const bypasses = true

// bypassCaches sets all words of b, which is made of whole cache lines, to value with stores that
// bypass the caches (MOVNTDQ).
//
// A plain store first requests ownership of the line, and fetches it from the cache of the core
// that read it in the last lap. Between distant cores that takes ten times as long as a write to
// memory and a read from there.
//
//go:noescape
func bypassCaches(b []byte, value uint64)

// storeFence orders the stores of bypassCaches before all later stores.
func storeFence()

package machine

// Ticks reads the processor's counter: the TSC on amd64, CNTVCT_EL0 on arm64.
// Its rate, and whether it may be used as a clock at all, are known to [Clock].
//
// The reading is not fenced: the processor may take it a few tens of cycles
// away from its place in the program. A fence would cost about as much as the
// reading itself and would drain the very pipeline that is being measured. An
// op is long against the error, which has no preferred sign.
//
//go:noescape
func Ticks() uint64

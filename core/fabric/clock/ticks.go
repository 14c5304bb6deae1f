package clock

// Ticks reads the processor's counter: the TSC on amd64, CNTVCT_EL0 on arm64. The measured runtime
// knows its rate and whether it can be used as a clock.
//
// The reading is not fenced, so the processor may take it a few tens of cycles before or after its
// place in the program. A fence would cost about as much as the reading and would drain the
// pipeline that is being measured. An op takes much longer than the error, which has no preferred
// sign.
//
//go:noescape
func Ticks() uint64

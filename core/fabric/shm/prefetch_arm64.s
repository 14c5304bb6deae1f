#include "textflag.h"

// func PrefetchWrite(p *uint32)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET

// func Prefetch(b []byte)
TEXT ·Prefetch(SB), NOSPLIT, $0-24
	MOVD b_base+0(FP), R0
	MOVD b_len+8(FP), R1
	ADD  R0, R1, R1
	AND  $~63, R0, R0
	B    test
next:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0, R0
test:
	CMP  R1, R0
	BLO  next
	RET

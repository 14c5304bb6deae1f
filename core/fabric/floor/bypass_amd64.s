#include "textflag.h"

// func bypassCaches(b []byte, value uint64)
TEXT ·bypassCaches(SB), NOSPLIT, $0-32
	MOVQ b_base+0(FP), DI
	MOVQ b_len+8(FP), CX
	MOVQ value+24(FP), X0
	PUNPCKLQDQ X0, X0
	ADDQ DI, CX
	JMP  check
line:
	MOVNTO X0, 0(DI)
	MOVNTO X0, 16(DI)
	MOVNTO X0, 32(DI)
	MOVNTO X0, 48(DI)
	ADDQ $64, DI
check:
	CMPQ DI, CX
	JLT  line
	RET

// func storeFence()
TEXT ·storeFence(SB), NOSPLIT, $0-0
	SFENCE
	RET

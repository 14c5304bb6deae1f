#include "textflag.h"

// func copyAround(dst, src []byte)
TEXT ·copyAround(SB), NOSPLIT, $0-48
	MOVQ dst_base+0(FP), DI
	MOVQ src_base+24(FP), SI
	MOVQ src_len+32(FP), CX
	ADDQ SI, CX
	JMP  check
line:
	MOVOU 0(SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVNTO X0, 0(DI)
	MOVNTO X1, 16(DI)
	MOVNTO X2, 32(DI)
	MOVNTO X3, 48(DI)
	ADDQ $64, SI
	ADDQ $64, DI
check:
	CMPQ SI, CX
	JLT  line
	SFENCE
	RET

// func demoteLine(line *byte)
TEXT ·demoteLine(SB), NOSPLIT, $0-8
	MOVQ line+0(FP), AX
	BYTE $0x0f; BYTE $0x1c; BYTE $0x00 // CLDEMOTE (AX)
	RET

// func readLines(b []byte)
TEXT ·readLines(SB), NOSPLIT, $0-24
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	ADDQ SI, CX
	JMP  check
line:
	MOVOU 0(SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	ADDQ $64, SI
check:
	CMPQ SI, CX
	JLT  line
	RET

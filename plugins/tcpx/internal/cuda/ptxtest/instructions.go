package ptxtest

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// arithmetic has the instructions that compute one value from one or two. The upper half of
// 32-bit values is zero.
var arithmetic = map[string]func(a, b uint64) uint64{
	"mov.u32":            func(a, _ uint64) uint64 { return low(a) },
	"cvt.u64.u32":        func(a, _ uint64) uint64 { return low(a) },
	"cvt.u32.u64":        func(a, _ uint64) uint64 { return low(a) },
	"cvta.to.global.u64": func(a, _ uint64) uint64 { return a },
	"add.u32":            func(a, b uint64) uint64 { return low(a + b) },
	"add.u64":            func(a, b uint64) uint64 { return a + b },
	"mul.wide.u32":       func(a, b uint64) uint64 { return low(a) * low(b) },
	"and.b32":            func(a, b uint64) uint64 { return low(a & b) },
	"or.b64":             func(a, b uint64) uint64 { return a | b },
	"shl.b32":            func(a, b uint64) uint64 { return low(low(a) << low(b)) },
	"shr.u32":            func(a, b uint64) uint64 { return low(a) >> low(b) },
	"setp.ge.u32":        func(a, b uint64) uint64 { return truth(low(a) >= low(b)) },
	"setp.eq.u32":        func(a, b uint64) uint64 { return truth(low(a) == low(b)) },
}

func low(a uint64) uint64 { return uint64(uint32(a)) }

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// access matches a load or a store of global memory: its kind, the number of vector elements,
// and the bits of each.
var access = regexp.MustCompile(`^(ld|st)\.global(?:\.v([24]))?\.u(8|16|32|64)$`)

// instruction returns the function of an instruction.
func (p *parser) instruction(line int, opcode string, operands []string) (func(*thread), error) {
	if f, found := arithmetic[opcode]; found {
		return p.compute(f, operands)
	}
	if m := access.FindStringSubmatch(opcode); m != nil && len(operands) == 2 {
		elements := 1
		if m[2] != "" {
			elements = int(m[2][0] - '0')
		}
		bits, _ := strconv.Atoi(m[3])
		if m[1] == "ld" {
			return p.load(elements, bits/8, operands[0], operands[1])
		}
		return p.store(elements, bits/8, operands[1], operands[0])
	}
	switch {
	case (opcode == "ld.param.u32" || opcode == "ld.param.u64") && len(operands) == 2:
		return p.compute(func(a, _ uint64) uint64 { return a },
			[]string{operands[0], strings.Trim(operands[1], "[]")})
	case opcode == "bra" && len(operands) == 1:
		target := new(int)
		p.branches = append(p.branches, branch{line, operands[0], target})
		return func(t *thread) { t.next = *target }, nil
	case opcode == "ret":
		return func(t *thread) { t.next = len(p.kernel.code) }, nil
	}
	return nil, fmt.Errorf("no instruction %s with %d operands is known here", opcode,
		len(operands))
}

func (p *parser) compute(f func(a, b uint64) uint64, operands []string) (func(*thread), error) {
	if len(operands) < 2 || len(operands) > 3 {
		return nil, fmt.Errorf("%d operands", len(operands))
	}
	to, err := p.register(operands[0])
	if err != nil {
		return nil, err
	}
	a, err := p.value(operands[1])
	if err != nil {
		return nil, err
	}
	b, err := p.value(operands[len(operands)-1])
	return func(t *thread) { t.registers[to] = f(a(t), b(t)) }, err
}

// elements returns the registers of a vector, or the single register.
func (p *parser) elements(count int, text string) (list []int, err error) {
	names := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("{}, ", r) })
	if len(names) != count {
		return nil, fmt.Errorf("%d registers for %d elements", len(names), count)
	}
	for _, name := range names {
		r, err := p.register(name)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func (p *parser) load(count, width int, to, from string) (func(*thread), error) {
	list, err := p.elements(count, to)
	if err != nil {
		return nil, err
	}
	base, offset, err := p.address(from)
	return func(t *thread) {
		t.err = t.memory.Load(t.registers[base]+offset, t.buffer[:count*width])
		for i, r := range list {
			var whole [8]byte
			copy(whole[:], t.buffer[i*width:(i+1)*width])
			t.registers[r] = binary.LittleEndian.Uint64(whole[:])
		}
	}, err
}

func (p *parser) store(count, width int, from, to string) (func(*thread), error) {
	list, err := p.elements(count, from)
	if err != nil {
		return nil, err
	}
	base, offset, err := p.address(to)
	return func(t *thread) {
		for i, r := range list {
			var whole [8]byte
			binary.LittleEndian.PutUint64(whole[:], t.registers[r])
			copy(t.buffer[i*width:(i+1)*width], whole[:])
		}
		t.err = t.memory.Store(t.registers[base]+offset, t.buffer[:count*width])
	}, err
}

package ptxtest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Kernel is a parsed entry.
type Kernel struct {
	Name    string
	Threads int // per block, from .reqntid

	code       []instruction
	registers  int // numbered together; the parameters come first
	parameters int
	block      int // register of %ctaid.x
	index      int // register of %tid.x
}

// instruction is one line of code.
type instruction struct {
	line             int
	guarded, negated bool
	guard            int // register of the predicate
	do               func(*thread)
}

// parser has the meaning of names.
type parser struct {
	kernel   *Kernel
	names    map[string]int // registers and parameters
	labels   map[string]int
	branches []branch
}

// branch is a branch whose label may not be known yet.
type branch struct {
	line   int
	label  string
	target *int
}

var (
	comment   = regexp.MustCompile(`//.*`)
	entry     = regexp.MustCompile(`^\.visible \.entry (\w+)\($`)
	parameter = regexp.MustCompile(`^\.param \.u(?:32|64) (\w+),?$`)
	threads   = regexp.MustCompile(`^\.reqntid (\d+), 1, 1$`)
	registers = regexp.MustCompile(`^\.reg \.(?:pred|b32|b64) (%\w)<(\d+)>;$`)
	label     = regexp.MustCompile(`^(\w+):$`)
	statement = regexp.MustCompile(`^(?:@(!?)(%p\d+) )?([\w.]+)(?: (.+))?;$`)
	operand   = regexp.MustCompile(`\{[^}]*\}|\[[^]]*\]|[^,\s]+`)
	ignored   = regexp.MustCompile(
		`^(?:\.version [\d.]+|\.target sm_\d+|\.address_size 64|[(){}])?$`)
)

// Parse parses a text with one entry. The error names the first line that is outside the
// subset or uses an undeclared name.
func Parse(text string) (*Kernel, error) {
	p := &parser{kernel: &Kernel{}, names: map[string]int{}, labels: map[string]int{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.Join(strings.Fields(comment.ReplaceAllString(line, "")), " ")
		if err := p.line(number, line); err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", number, line, err)
		}
	}
	for _, b := range p.branches {
		at, found := p.labels[b.label]
		if !found {
			return nil, fmt.Errorf("line %d: no label %s", b.line, b.label)
		}
		*b.target = at
	}
	if p.kernel.Threads == 0 || len(p.kernel.code) == 0 {
		return nil, fmt.Errorf("no entry with code and .reqntid")
	}
	return p.kernel, nil
}

func (p *parser) line(number int, line string) error {
	k := p.kernel
	switch {
	case ignored.MatchString(line):
	case entry.MatchString(line):
		k.Name = entry.FindStringSubmatch(line)[1]
	case parameter.MatchString(line):
		p.declare(parameter.FindStringSubmatch(line)[1])
		k.parameters++
	case threads.MatchString(line):
		k.Threads, _ = strconv.Atoi(threads.FindStringSubmatch(line)[1])
		k.block, k.index = p.declare("%ctaid.x"), p.declare("%tid.x")
	case registers.MatchString(line):
		m := registers.FindStringSubmatch(line)
		n, _ := strconv.Atoi(m[2])
		for i := range n {
			p.declare(m[1] + strconv.Itoa(i))
		}
	case label.MatchString(line):
		name := strings.TrimSuffix(line, ":")
		if _, twice := p.labels[name]; twice {
			return fmt.Errorf("label %s stands twice", name)
		}
		p.labels[name] = len(k.code)
	case statement.MatchString(line):
		m := statement.FindStringSubmatch(line)
		return p.statement(number, m[1] == "!", m[2], m[3], operand.FindAllString(m[4], -1))
	default:
		return fmt.Errorf("no PTX that is known here")
	}
	return nil
}

func (p *parser) declare(name string) int {
	p.names[name] = p.kernel.registers
	p.kernel.registers++
	return p.names[name]
}

func (p *parser) statement(number int, negated bool, guard, opcode string,
	operands []string) (err error) {
	i := instruction{line: number, negated: negated}
	if guard != "" {
		i.guarded = true
		if i.guard, err = p.register(guard); err != nil {
			return err
		}
	}
	if i.do, err = p.instruction(number, opcode, operands); err != nil {
		return err
	}
	p.kernel.code = append(p.kernel.code, i)
	return nil
}

func (p *parser) register(name string) (int, error) {
	r, found := p.names[name]
	if !found {
		return 0, fmt.Errorf("nobody declares %s", name)
	}
	return r, nil
}

// value parses a register or a constant.
func (p *parser) value(text string) (func(*thread) uint64, error) {
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return func(*thread) uint64 { return uint64(n) }, nil
	}
	r, err := p.register(text)
	return func(t *thread) uint64 { return t.registers[r] }, err
}

// address parses a register and an offset, in brackets.
func (p *parser) address(text string) (register int, offset uint64, err error) {
	name, plus, found := strings.Cut(strings.Trim(text, "[]"), "+")
	if found {
		if offset, err = strconv.ParseUint(plus, 0, 64); err != nil {
			return 0, 0, err
		}
	}
	register, err = p.register(name)
	return register, offset, err
}

package ptxtest

import "fmt"

// Memory is the GPU's memory.
type Memory interface {
	// Load fills into from an address.
	Load(address uint64, into []byte) error
	// Store writes from to an address.
	Store(address uint64, from []byte) error
}

// maxSteps is the limit of instructions per thread, so that an endless loop ends after
// seconds.
const maxSteps = 1 << 26

// thread is one thread of a launch.
type thread struct {
	registers []uint64
	next      int // instruction
	memory    Memory
	buffer    [16]byte // of one load or store
	err       error
}

// Run runs blocks of the kernel, one thread after the other, with parameters in the order of
// their declaration. It returns an error of the memory, or one if a thread does not end.
func (k *Kernel) Run(blocks int, parameters []uint64, memory Memory) error {
	if len(parameters) != k.parameters {
		return fmt.Errorf("%d parameters, and the kernel has %d", len(parameters), k.parameters)
	}
	t := &thread{registers: make([]uint64, k.registers), memory: memory}
	for block := range blocks {
		for index := range k.Threads {
			clear(t.registers)
			copy(t.registers, parameters)
			t.registers[k.block], t.registers[k.index] = uint64(block), uint64(index)
			if err := k.runThread(t); err != nil {
				return fmt.Errorf("block %d, thread %d: %w", block, index, err)
			}
		}
	}
	return nil
}

func (k *Kernel) runThread(t *thread) error {
	t.next = 0
	for steps := 0; t.next < len(k.code); steps++ {
		if steps == maxSteps {
			return fmt.Errorf("it does not end")
		}
		i := &k.code[t.next]
		t.next++
		if i.guarded && (t.registers[i.guard] == 0) != i.negated {
			continue
		}
		i.do(t)
		if t.err != nil {
			return fmt.Errorf("line %d: %w", i.line, t.err)
		}
	}
	return nil
}

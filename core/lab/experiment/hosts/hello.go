package hosts

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"transportbench/core"
	"transportbench/core/base/machine"
	"transportbench/core/base/printable"
	"transportbench/core/lab/experiment/hosts/engine"
)

// Hello is what an agent says of itself when it joins.
type Hello struct {
	Version string `json:"version"` // of the command
	Runtime string `json:"runtime"` // the digest of the measured runtime that it was built from
	Name    string `json:"name"`    // the host's
	BootID  string `json:"boot_id"` // the same for all agents on one machine
	// Network is the same for all agents of a machine that are in one network namespace.
	Network string `json:"network"`
	PID     int    `json:"pid"`
	// Index is the agent's number in the order of the engine that started it; -1 if there is none.
	Index int `json:"index"`
	// Tasks is the number of agents that the engine started; 0 if it does not tell.
	Tasks int `json:"tasks,omitempty"`
	// Step is the step of Slurm that the agent belongs to, as "JOB.STEP"; or "".
	Step string `json:"step,omitempty"`
	// UnknownFlag is a flag that the agent got and does not know; or "".
	UnknownFlag string `json:"unknown_flag,omitempty"`
	// Address is the host's in its connection to the coordinator.
	Address     netip.Addr          `json:"address"`
	Environment machine.Environment `json:"environment"`
	CPUs        []machine.CPU       `json:"cpus"` // that the agent may use
	Limits      machine.Limits      `json:"limits"`
	// Interfaces are the host's network interfaces; Environment has its RDMA devices.
	Interfaces []machine.NetworkDevice `json:"interfaces,omitempty"`
	// Libraries are the versions of native libraries that transports use, by name.
	Libraries map[string]string `json:"libraries,omitempty"`
}

// answer is the coordinator's reply.
type answer struct {
	Refusal string `json:"refusal,omitempty"`
	// HostTimeout is how long either end may be silent.
	HostTimeout time.Duration `json:"host_timeout_ns,omitempty"`
}

// Bounds of what the other end sends, in bytes and elements.
const (
	longestHello       = 4 << 20
	longestEnvironment = 64 << 10
	longestAnswer      = 4096
	longestName        = 255
	longestVersion     = 4096
	maxLibraries       = 64
	maxCPUs            = 1 << 16
	maxAgents          = 1 << 16
)

// NewHello describes this host.
func NewHello() (Hello, error) {
	h := Hello{
		Version: core.Version, Runtime: core.RuntimeDigest(), PID: os.Getpid(), Index: -1,
		BootID:      machine.Root("/").Text("proc/sys/kernel/random/boot_id"),
		Environment: machine.ReadEnvironment(), Limits: machine.ReadLimits(),
	}
	var err error
	if h.Name, err = os.Hostname(); err != nil {
		return h, err
	}
	if h.Network, err = os.Readlink("/proc/self/ns/net"); err != nil {
		return h, err
	}
	h.Interfaces = machine.Interfaces()
	h.CPUs, err = machine.AllowedTopology()
	if err == nil {
		err = h.check()
	}
	return h, err
}

// check returns an error if no host can be like that, and makes the texts printable.
func (h *Hello) check() error {
	printable.Strings(h)
	environment, err := json.Marshal(h.Environment)
	switch {
	case err != nil:
		return err
	case h.Name == "" || len(h.Name) > longestName || strings.ContainsFunc(h.Name, notInName):
		return fmt.Errorf("%.300q is no host's name", h.Name)
	case max(len(h.Version), len(h.Runtime)) > longestName:
		return errors.New("it has an impossible version")
	case h.Index < -1 || h.Index >= maxAgents || h.Tasks < 0 || h.Tasks > maxAgents:
		return fmt.Errorf("it has an impossible number %d of %d agents", h.Index, h.Tasks)
	case len(h.UnknownFlag) > longestName:
		return errors.New("it has an impossible flag")
	case h.Step != "" && !engine.IsStep(h.Step):
		return fmt.Errorf("%.30q is no step of Slurm", h.Step)
	case len(environment) > longestEnvironment:
		return fmt.Errorf("its environment takes %d bytes; at most %d are allowed",
			len(environment), longestEnvironment)
	case slices.ContainsFunc(h.Interfaces,
		func(d machine.NetworkDevice) bool { return len(d.Name) > longestName }):
		return errors.New("it has an interface with an impossible name")
	case len(h.Libraries) > maxLibraries ||
		slices.ContainsFunc(slices.Collect(maps.Values(h.Libraries)),
			func(v string) bool { return len(v) > longestVersion }):
		return errors.New("it has impossible libraries")
	case len(h.Network) > longestName:
		return errors.New("it has an impossible network namespace")
	case h.BootID == "" || len(h.BootID) > longestName:
		return errors.New(
			"it has no /proc/sys/kernel/random/boot_id, so machines cannot be told apart")
	case len(h.CPUs) == 0 || len(h.CPUs) > maxCPUs:
		return fmt.Errorf("it may use %d processors", len(h.CPUs))
	}
	seen := map[int]bool{}
	for _, cpu := range h.CPUs {
		if cpu.ID < 0 || cpu.ID >= maxCPUs || seen[cpu.ID] {
			return fmt.Errorf("it has an impossible processor %d", cpu.ID)
		}
		seen[cpu.ID] = true
	}
	return nil
}

// notInName reports whether a host's name cannot have a character. The name is a label in output,
// and a word of lists.
func notInName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
}

// writeMessage writes v with its length before it.
func writeMessage(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readMessage reads what writeMessage wrote. It reads no byte more, because the same connection
// then carries something else.
func readMessage(r io.Reader, longest int, v any) error {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(header[:])
	if length > uint32(longest) {
		return fmt.Errorf("a message of %d bytes; at most %d are allowed", length, longest)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(length))) // grows with what arrives
	switch {
	case err != nil:
		return err
	case len(text) < int(length):
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(text, v)
}

// readHello reads and checks an agent's message. Of another version's it reads the version, and the
// name for messages, and checks nothing else: that the first message is an object with its length
// before it, which has a "version", is the same for all versions.
func readHello(r io.Reader) (Hello, error) {
	var text json.RawMessage
	var every struct {
		Version string `json:"version"`
		Name    any    `json:"name"`
	}
	err := readMessage(r, longestHello, &text)
	if err == nil {
		err = json.Unmarshal(text, &every)
	}
	if err == nil && every.Version != "" && every.Version != core.Version &&
		len(every.Version) <= longestName {
		h := Hello{Version: printable.Text(every.Version),
			Name: "an unknown host"}
		if name, ok := every.Name.(string); ok && !strings.ContainsFunc(name, notInName) {
			h.Name = name[:min(len(name), longestName)]
		}
		return h, nil
	}
	var h Hello
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		return h, fmt.Errorf("read its first message: %w", err)
	}
	return h, h.check()
}

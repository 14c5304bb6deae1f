package rank

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// mostInspected is how many of the last values in device memory are verified after a
// window, as far as they are still there.
const mostInspected = 1 << 12

// deviceLog remembers where the values lie that peers have written and that stay in
// device memory. They are verified after the window: a copy back in it would be measured.
type deviceLog struct {
	reader transport.DeviceReader
	list   [mostInspected]deviceValue // circular
	count  uint64                     // of all since the window began
	buffer []byte                     // off the heap; the largest request
	report record.DeviceReport
}

// deviceValue is a PUT of which the transport handed out the head.
type deviceValue struct {
	place uint64
	head  [kv.HeaderSize]byte
	peer  transport.PeerID
	size  int32
}

// deviceProblem says why a workload cannot run over payloads in device memory.
func deviceProblem(cfg *config.Config) error {
	if !cfg.ReadsValues() {
		return nil
	}
	return fmt.Errorf("transport %s leaves payloads in device memory, and a value that is read has to be in the host's: %w by this runtime; "+
		"use a workload that only writes, such as --profile bulk, or options of the transport that keep payloads in the host's memory",
		cfg.Transport, transport.ErrUnsupported)
}

// newDeviceLog makes the log of a daemon whose worker leaves payloads in device memory.
func newDeviceLog(cfg *config.Config, worker transport.Worker) (*deviceLog, error) {
	reader, ok := worker.(transport.DeviceReader)
	if !ok {
		return nil, fmt.Errorf("transport %s leaves payloads in device memory and cannot read them back, so that nothing would be verified: %w",
			cfg.Transport, transport.ErrUnsupported)
	}
	size := cfg.LargestMessage()
	buffer, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes to verify values in: %w; lower --value-size", size, err)
	}
	return &deviceLog{reader: reader, buffer: buffer}, nil
}

func (l *deviceLog) close() error { return unix.Munmap(l.buffer) }

// begin forgets what came before the window.
func (l *deviceLog) begin() { l.count, l.report = 0, record.DeviceReport{} }

// inspect copies the last values back and verifies them, those of the drain included,
// since they are what is left of the window's load.
func (l *deviceLog) inspect() error {
	for i := range min(l.count, mostInspected) {
		v := &l.list[(l.count-1-i)%mostInspected]
		request := l.buffer[:v.size]
		there, err := l.reader.ReadDevice(v.peer, v.place, request)
		switch {
		case err != nil:
			return fmt.Errorf("copying a value back from device memory: %w", err)
		case !there: // used again
		case bytes.Equal(request[:kv.HeaderSize], v.head[:]) && kv.Intact(request):
			l.report.Verified++
		default:
			l.report.Wrong++
		}
	}
	return nil
}

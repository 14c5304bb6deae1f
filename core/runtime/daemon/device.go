package daemon

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// maxInspected is the number of values in device memory that are verified after a window: the
// last ones, if they are still there.
const maxInspected = 1 << 12

// deviceLog records the values that peers have written to device memory. They are verified
// after the window, because copying them to the host would be measured.
type deviceLog struct {
	reader transport.DeviceWorker
	list   [maxInspected]deviceValue // circular
	count  uint64                    // all values since the window began
	buffer []byte                    // off the Go heap; as large as the largest request
	report record.DeviceReport
}

// deviceValue is a PUT whose value stays in device memory.
type deviceValue struct {
	offset uint64
	header [kv.HeaderSize]byte
	peer   transport.PeerID
	size   int32
}

// newDeviceLog returns the log of a daemon whose worker leaves payloads in device memory.
func newDeviceLog(cfg *config.Config, worker transport.Worker) (*deviceLog, error) {
	reader, ok := worker.(transport.DeviceWorker)
	if !ok {
		return nil, fmt.Errorf("transport %s leaves payloads in device memory and cannot read "+
			"them back, so nothing would be verified: %w",
			cfg.Transport, transport.ErrUnsupported)
	}
	size := cfg.LargestMessage()
	buffer, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes to verify values: %w; lower --value-size", size, err)
	}
	return &deviceLog{reader: reader, buffer: buffer}, nil
}

func (l *deviceLog) close() error {
	if l.buffer == nil {
		return nil
	}
	return unix.Munmap(l.buffer)
}

// begin drops the values from before the window.
func (l *deviceLog) begin() { l.count, l.report = 0, record.DeviceReport{} }

// inspect copies the last values to the host and verifies them. It includes values that arrived
// while draining, because they were posted in the window.
func (l *deviceLog) inspect() error {
	for i := range min(l.count, maxInspected) {
		v := &l.list[(l.count-1-i)%maxInspected]
		request := l.buffer[:v.size]
		valid, err := l.reader.ReadDevice(v.peer, v.offset, request)
		switch {
		case err != nil:
			return fmt.Errorf("copy a value from device memory: %w", err)
		case !valid: // overwritten
		case bytes.Equal(request[:kv.HeaderSize], v.header[:]) && kv.Intact(request):
			l.report.Verified++
		default:
			l.report.Wrong++
		}
	}
	return nil
}

// add records the offset of a PUT whose value stays in device memory.
func (l *deviceLog) add(e *transport.Event) {
	v := &l.list[l.count%maxInspected]
	l.count++
	v.offset, v.peer, v.size = e.DeviceOffset, e.Peer, int32(e.Size)
	copy(v.header[:], e.Payload)
}

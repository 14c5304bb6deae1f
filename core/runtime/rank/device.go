package rank

import (
	"bytes"
	"fmt"
	"math"

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

// checkDeviceWorkload returns an error if the workload reads values, which the client would have to
// verify in device memory, or if daemons pass them on.
func checkDeviceWorkload(cfg *config.Config) error {
	if cfg.Delegate {
		return fmt.Errorf("transport %s leaves payloads in device memory, and --delegate passes "+
			"them on through host memory: %w by this runtime; leave one of them out",
			cfg.Transport, transport.ErrUnsupported)
	}
	if !cfg.ReadsValues() {
		return nil
	}
	return fmt.Errorf("transport %s leaves payloads in device memory, and reads need them in "+
		"host memory: %w by this runtime; "+
		"use a workload that only writes, such as --profile bulk, or transport options that keep "+
		"payloads in host memory",
		cfg.Transport, transport.ErrUnsupported)
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

// moveToDevice moves the values of all requests to device memory, from which the transport sends
// them. The host's copies are erased, so that only the device has the bytes that daemons verify.
func (c *client) moveToDevice() error {
	sender, ok := c.worker.(transport.DeviceWorker)
	slots := len(c.calls)
	switch {
	case !ok:
		return fmt.Errorf(
			"transport %s declares device_send and its workers are no DeviceWorker: %w",
			c.cfg.Transport, transport.ErrUnsupported)
	case !c.replays:
		return fmt.Errorf("transport %s sends values from device memory, and this workload "+
			"writes its requests as it goes: %w by this runtime; "+
			"use one whose requests are replayed, such as --profile bulk, or transport options "+
			"that send from host memory", c.cfg.Transport, transport.ErrUnsupported)
	case slots > math.MaxUint16:
		return fmt.Errorf("transport %s sends values from device memory, which has slots for %d "+
			"requests, and this client has %d: %w; lower --keys or --in-flight",
			c.cfg.Transport, math.MaxUint16, slots, transport.ErrUnsupported)
	}
	if err := sender.ReserveDevice(uint16(slots), c.cfg.LargestMessage()); err != nil {
		return err
	}
	for i := range c.calls {
		request := &c.requests[i]
		if len(request.Payload) <= kv.HeaderSize {
			continue
		}
		request.DeviceSlot = uint16(i + 1)
		if err := sender.WriteDevice(request.DeviceSlot, request.Payload); err != nil {
			return err
		}
		clear(request.Payload[kv.HeaderSize:])
		request.Payload = request.Payload[:kv.HeaderSize]
	}
	copy(c.requests[slots:], c.requests) // the first ones are there again
	return nil
}

// add records the offset of a PUT whose value stays in device memory.
func (l *deviceLog) add(e *transport.Event) {
	v := &l.list[l.count%maxInspected]
	l.count++
	v.offset, v.peer, v.size = e.DeviceOffset, e.Peer, int32(e.Size)
	copy(v.header[:], e.Payload)
}

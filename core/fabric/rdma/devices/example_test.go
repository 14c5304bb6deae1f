package devices_test

import (
	"fmt"
	"log"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
)

// endpoint is one side of the example: a device with a queue pair and 4 KiB of memory.
type endpoint struct {
	device rdma.Device
	cq     rdma.CompletionQueue
	qp     rdma.QueuePair
	region *rdma.Region
}

func openEndpoint() *endpoint {
	device, err := devices.Open(rdma.Options{Provider: rdma.Soft})
	check(err)
	cq, err := device.NewCompletionQueue(32)
	check(err)
	qp, err := device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected,
		Completions: cq, SendDepth: 16, ReceiveDepth: 16})
	check(err)
	region, err := device.Allocate(4096, rdma.RemoteWrite)
	check(err)
	return &endpoint{device, cq, qp, region}
}

// next polls until a completion arrives.
func (e *endpoint) next() rdma.Completion {
	var completions [1]rdma.Completion
	for {
		if n, err := e.cq.Poll(completions[:]); err != nil || n > 0 {
			check(err)
			return completions[0]
		}
	}
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

// Two queue pairs connect, and one writes into the memory of the other. Programs usually run
// the two sides in two processes and exchange Endpoint and RemoteRegion as JSON.
func Example() {
	a, b := openEndpoint(), openEndpoint()
	defer a.device.Close()
	defer b.device.Close()
	check(a.qp.Connect(b.qp.Endpoint(), rdma.ConnectOptions{}))
	check(b.qp.Connect(a.qp.Endpoint(), rdma.ConnectOptions{}))

	// An immediate consumes a receive, so post one first.
	_, err := b.qp.PostReceive([]rdma.ReceiveRequest{{ID: 7}})
	check(err)

	length := copy(a.region.Bytes, "hello")
	_, err = a.qp.PostSend([]rdma.SendRequest{{ID: 1, Opcode: rdma.WriteWithImmediate,
		Flags: rdma.Signaled,
		Local: a.region.Address, LocalKey: a.region.LocalKey, Length: uint32(length),
		Remote: b.region.Remote.Address, RemoteKey: b.region.Remote.Key, Immediate: 42}})
	check(err)

	c := b.next()
	fmt.Println(c.Opcode, c.Status, c.ID, c.Immediate, string(b.region.Bytes[:c.Length]))
	c = a.next() // the memory of the request belongs to the program again
	fmt.Println(c.Opcode, c.Status, c.ID)
	// Output:
	// receive of a write with immediate success 7 42 hello
	// write success 1
}

package rdmaperf

import (
	"strconv"

	"transportbench/core/fabric/rdma"
)

// witness returns the command line of perftest that measures the same on a device, without the
// addresses. It has no WRITE WITH IMMEDIATE, whose
// receiver does what that of a SEND does.
func (b benchmark) witness(a rdma.Attributes) []string {
	program := map[rdma.Opcode]string{rdma.Write: "ib_write", rdma.WriteWithImmediate: "ib_send",
		rdma.Send: "ib_send",
		rdma.Read: "ib_read", rdma.FetchAdd: "ib_atomic", rdma.CompareSwap: "ib_atomic"}[b.opcode]
	number := func(name string, value int) string { return "--" + name + "=" + strconv.Itoa(value) }
	// A fraction of a second, and a multiple of every postlist, which perftest requires.
	iterations := max(256, 5000/b.pairs/max(1, b.size/4096)) &^ 63
	line := []string{program + "_lat", "--ib-dev=" + a.Name, number("ib-port", a.Port),
		number("iters", iterations)}
	if a.Link == "Ethernet" {
		line = append(line, number("gid-index", a.GIDIndex))
	}
	if !b.latency {
		line[0] = program + "_bw"
		line = append(line, number("tx-depth", b.depth), number("qp", b.pairs))
		// perftest signals the last request of a postlist.
		if b.postlist > 1 {
			line = append(line, number("post_list", b.postlist))
		} else {
			line = append(line, number("cq-mod", b.signal))
		}
		if b.access&rdma.RelaxedOrdering == 0 {
			line = append(line, "--disable_pcie_relaxed")
		}
	}
	switch {
	case b.opcode == rdma.CompareSwap:
		line = append(line, "--atomic_type=CMP_AND_SWAP")
	case !b.atomic():
		line = append(line, number("size", b.size))
	}
	if b.kind != rdma.ReliableConnected {
		line = append(line, "--connection="+b.kind.String())
	}
	if !b.fetches() {
		inline := 0
		if b.size <= b.inline {
			inline = b.size
		}
		line = append(line, number("inline_size", inline))
	}
	return line
}

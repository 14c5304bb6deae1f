package machine

import (
	"fmt"
	"runtime"
	"strings"
)

// Environment describes the machine on which a result was recorded. Values that cannot be read are
// empty or 0.
type Environment struct {
	Identity Identity `json:"identity"`
	Volatile Volatile `json:"volatile"`
}

// Identity is the part of the environment that must be the same for two results to be comparable.
type Identity struct {
	CPU            string       `json:"cpu"` // the model's name
	Arch           string       `json:"arch"`
	CPUs           int          `json:"cpus"`  // online, logical
	Cores          int          `json:"cores"` // online, physical
	Packages       int          `json:"packages"`
	NUMANodes      int          `json:"numa_nodes"`
	MemoryGiB      int          `json:"memory_gib"` // rounded: kernels reserve differing amounts
	Kernel         string       `json:"kernel"`
	Virtualisation string       `json:"virtualisation"` // hypervisor; empty on bare metal
	RDMA           []RDMADevice `json:"rdma,omitempty"`
	// Machines is the number of machines if the ranks were on several; the rest describes the
	// first.
	Machines int `json:"machines,omitempty"`
}

// RDMADevice is one entry of /sys/class/infiniband.
type RDMADevice struct {
	Name     string     `json:"name"`
	Type     string     `json:"type"`  // the driver's name for the chip ("MT4129")
	Board    string     `json:"board"` // part set id of the board
	Firmware string     `json:"firmware"`
	Node     int        `json:"node"` // NUMA node, -1 if unknown
	Ports    []RDMAPort `json:"ports"`
}

// RDMAPort is one port of a device. Its state is not part of the identity.
type RDMAPort struct {
	Number    string `json:"number"`
	LinkLayer string `json:"link_layer"` // "InfiniBand" or "Ethernet"
	Rate      string `json:"rate"`       // "100 Gb/sec (4X EDR)"
	State     string `json:"-"`          // "ACTIVE", "DOWN", ...
}

// ReadEnvironment reads the environment of this machine. It takes a few milliseconds.
func ReadEnvironment() Environment { return Root("/").Environment() }

// Environment is like [ReadEnvironment], below r.
func (r Root) Environment() Environment {
	return Environment{Identity: r.identity(), Volatile: r.volatile()}
}

func (r Root) identity() Identity {
	id := Identity{
		CPU:            r.cpuModel(),
		Arch:           runtime.GOARCH,
		NUMANodes:      r.numaNodes(),
		Kernel:         r.Text("proc/sys/kernel/osrelease"),
		Virtualisation: r.virtualisation(),
		RDMA:           r.RDMADevices(),
	}
	if total := r.memory().MemTotalBytes; total != nil {
		const gib = 1 << 30
		id.MemoryGiB = int((*total + gib/2) / gib)
	}
	if cpus, err := r.Topology(); err == nil {
		packages := make(map[int]bool)
		for _, cpu := range cpus {
			if cpu.Package >= 0 {
				packages[cpu.Package] = true
			}
		}
		id.CPUs, id.Cores, id.Packages = len(cpus), Cores(cpus), len(packages)
	}
	return id
}

// armParts has the names of server cores by implementer and part, which is all that /proc/cpuinfo
// reports.
var armParts = map[string]string{
	"0x41/0xd08": "Arm Cortex-A72",
	"0x41/0xd0c": "Arm Neoverse N1",
	"0x41/0xd40": "Arm Neoverse V1",
	"0x41/0xd49": "Arm Neoverse N2",
	"0x41/0xd4f": "Arm Neoverse V2",
	"0x48/0xd01": "HiSilicon Kunpeng 920",
	"0xc0/0xac3": "Ampere-1",
	"0xc0/0xac4": "Ampere-1A",
}

func (r Root) cpuModel() string {
	info := r.cpuInfo()
	if name := info["model name"]; name != "" {
		return name
	}
	implementer, part := info["CPU implementer"], info["CPU part"]
	if implementer == "" && part == "" {
		return ""
	}
	number := implementer + "/" + part
	if name := armParts[number]; name != "" {
		return name
	}
	return fmt.Sprintf("implementer %s part %s", implementer, part)
}

func (r Root) numaNodes() int {
	nodes := 0
	for _, name := range r.Names("sys/devices/system/node") {
		if number, found := strings.CutPrefix(name, "node"); found && parseNumber(number) >= 0 {
			nodes++
		}
	}
	return nodes
}

// virtualisation guesses the hypervisor from files.
func (r Root) virtualisation() string {
	if kind := r.Text("sys/hypervisor/type"); kind != "" {
		return kind
	}
	vendor := r.Text("sys/class/dmi/id/sys_vendor")
	product := r.Text("sys/class/dmi/id/product_name")
	flagged := strings.Contains(" "+r.cpuInfo()["flags"]+" ", " hypervisor ")
	for _, known := range []struct{ mark, name string }{
		{"qemu", "kvm"}, {"kvm", "kvm"}, {"vmware", "vmware"}, {"virtualbox", "virtualbox"},
		{"virtual machine", "hyper-v"}, {"google compute", "kvm"}, {"openstack", "kvm"},
		{"bhyve", "bhyve"},
	} {
		if strings.Contains(strings.ToLower(vendor+" "+product), known.mark) {
			return known.name
		}
	}
	switch {
	case !flagged && r.Exists("proc/device-tree/hypervisor"):
		return "unknown hypervisor"
	case !flagged:
		return ""
	case strings.Contains(
		r.Text("sys/devices/system/clocksource/clocksource0/available_clocksource"), "kvm-clock"):
		return "kvm"
	case strings.HasPrefix(vendor, "Amazon"):
		return "nitro"
	default:
		return "unknown hypervisor"
	}
}

// RDMADevices returns the kernel's RDMA devices, hardware and software.
func (r Root) RDMADevices() []RDMADevice {
	const class = "sys/class/infiniband"
	var devices []RDMADevice
	for _, name := range r.Names(class) {
		dir := class + "/" + name
		device := RDMADevice{
			Name:     name,
			Type:     r.Text(dir, "hca_type"),
			Board:    r.Text(dir, "board_id"),
			Firmware: r.Text(dir, "fw_ver"),
			Node:     r.number(dir, "device/numa_node"),
		}
		for _, port := range r.Names(dir, "ports") {
			// "4: ACTIVE"
			_, state, _ := strings.Cut(r.Text(dir, "ports", port, "state"), ": ")
			device.Ports = append(device.Ports, RDMAPort{
				Number:    port,
				LinkLayer: r.Text(dir, "ports", port, "link_layer"),
				Rate:      r.Text(dir, "ports", port, "rate"),
				State:     state,
			})
		}
		devices = append(devices, device)
	}
	return devices
}

package doctor

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// rdmaUsers says who uses an RDMA device.
const rdmaUsers = "copyrpc and erpc use it with provider=verbs, and ucxam where UCX does."

// rdma has a finding for each device.
func (x *examiner) rdma() []Finding {
	devices := x.environment.Identity.RDMA
	if len(devices) == 0 {
		return []Finding{{Name: "rdma", Value: "no device", Status: Note,
			Meaning: "copyrpc and erpc run on their software providers here, and ucxam on shared memory or TCP."}}
	}
	reachable := slices.ContainsFunc(x.root.Names("dev/infiniband"), func(name string) bool {
		return strings.HasPrefix(name, "uverbs")
	})
	var findings []Finding
	for _, device := range devices {
		f := Finding{Name: "rdma " + device.Name, Status: OK, Meaning: rdmaUsers}
		parts := []string{strings.TrimSpace(device.Type + " firmware " + device.Firmware)}
		active := false
		for _, port := range device.Ports {
			parts = append(parts, fmt.Sprintf("port %s %s %s %s", port.Number, port.LinkLayer, port.State, port.Rate))
			active = active || port.State == "ACTIVE"
		}
		if device.Node >= 0 {
			parts = append(parts, fmt.Sprintf("NUMA node %d", device.Node))
		}
		f.Value = strings.Join(parts, "; ")
		switch {
		case !reachable:
			f.Status = Bad
			f.Meaning = "The kernel has the device, but no /dev/infiniband/uverbs* leads to it: verbs programs cannot open it."
			f.Remedy = "modprobe ib_uverbs; in a container, pass the devices on (docker run --device=/dev/infiniband)"
		case !active:
			f.Status = Warn
			f.Meaning = "No port is active: programs can open the device but not connect."
			f.Remedy = "check the cable, and the subnet manager (InfiniBand) or the interface (ip link set up)"
		case strings.HasPrefix(device.Name, "rxe"), strings.HasPrefix(device.Name, "siw"):
			f.Status = Note
			f.Meaning = "It is RDMA in software over an ordinary interface: right for trying verbs, wrong for their speed. " + rdmaUsers
		}
		findings = append(findings, f)
	}
	return findings
}

// library is a native library that a transport binds.
type library struct {
	soname  string // without the version: "libucp.so"
	pkg     string // Debian's package of the library, for its version
	header  string // below /usr/include; empty where none is needed
	install string
	use     string
}

var nativeLibraries = []library{
	{"libibverbs.so", "libibverbs1", "infiniband/verbs.h", "apt-get install libibverbs-dev ibverbs-providers",
		"copyrpc and erpc reach RDMA devices through it (provider=verbs)."},
	{"libucp.so", "libucx0", "ucp/api/ucp.h", "apt-get install libucx-dev", "ucxam is built on it."},
	{"libcuda.so", "libcuda1", "", "install NVIDIA's driver; the library comes with it",
		"tcpx reaches GPUs through it (mode=gpu)."},
}

func (x *examiner) libraries() []Finding {
	dirs := x.loaderDirs()
	var findings []Finding
	for _, lib := range nativeLibraries {
		f := Finding{Name: strings.TrimSuffix(lib.soname, ".so"), Status: OK, Meaning: lib.use}
		switch file := x.findLibrary(dirs, lib.soname); {
		case file == "":
			f.Value, f.Status = "not installed", Note
			f.Remedy = lib.install
		default:
			f.Value = file
			if version := x.packageVersion(lib.pkg); version != "" {
				f.Value = version + ", " + file
			}
			if lib.header != "" && !x.hasHeader(lib.header) {
				f.Status = Note
				f.Meaning = lib.use + " The headers to build against it are missing."
				f.Remedy = lib.install
			}
		}
		findings = append(findings, f)
	}
	return findings
}

func (x *examiner) hasHeader(header string) bool {
	return x.root.Exists("usr/include", header) || x.root.Exists("usr/local/include", header)
}

// triplets names the directories of Debian's libraries by architecture.
var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// loaderDirs lists where the loader looks, first to last, without the
// directories of other architectures.
func (x *examiner) loaderDirs() []string {
	dirs := filepath.SplitList(x.loaderPath)
	for _, name := range x.root.Names("etc/ld.so.conf.d") {
		for line := range strings.Lines(x.root.Text("etc/ld.so.conf.d", name)) {
			dirs = append(dirs, strings.TrimSpace(line))
		}
	}
	triplet := triplets[x.arch]
	for _, dir := range []string{"/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"} {
		dirs = append(dirs, path.Join(dir, triplet), dir)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return !strings.HasPrefix(dir, "/") || strings.Contains(dir, "-linux-gnu") && path.Base(dir) != triplet
	})
}

// findLibrary returns the path of the file behind a library's newest name; its
// last part ends in the version.
func (x *examiner) findLibrary(dirs []string, soname string) string {
	for _, dir := range dirs {
		matches, err := filepath.Glob(x.root.Path(dir, soname+".*"))
		if err != nil || len(matches) == 0 {
			continue
		}
		name := filepath.Base(matches[len(matches)-1])
		if target, err := os.Readlink(matches[len(matches)-1]); err == nil {
			name = filepath.Base(target)
		}
		return path.Join(dir, name)
	}
	return ""
}

// packageVersion asks dpkg's database, since a library's file name tells little
// of its release; it returns nothing on other systems. Debian's names may end
// in t64, after the change of time_t.
func (x *examiner) packageVersion(pkg string) string {
	for _, paragraph := range strings.Split(x.root.Text("var/lib/dpkg/status"), "\n\n") {
		name, version, installed := "", "", false
		for line := range strings.Lines(paragraph) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch key {
			case "Package":
				name = value
			case "Version":
				version = value
			case "Status":
				installed = strings.HasSuffix(value, " installed")
			}
		}
		if installed && (name == pkg || name == pkg+"t64") {
			return version
		}
	}
	return ""
}

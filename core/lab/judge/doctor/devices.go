package doctor

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// rdmaUsers says which transports use an RDMA device. What each takes here is a finding of its own.
const rdmaUsers = "Transports of the group RDMA use it, such as those with provider=verbs."

// rdma returns a finding for each device.
func (x *examiner) rdma() []Finding {
	devices := x.environment.Identity.RDMA
	if len(devices) == 0 {
		return []Finding{{Name: "rdma", Value: "no device", Status: Note,
			Meaning: "Transports of the group RDMA use software, shared memory or TCP here."}}
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
			parts = append(parts, fmt.Sprintf("port %s %s %s %s", port.Number, port.LinkLayer,
				port.State, port.Rate))
			active = active || port.State == "ACTIVE"
		}
		if device.Node >= 0 {
			parts = append(parts, fmt.Sprintf("NUMA node %d", device.Node))
		}
		f.Value = strings.Join(parts, "; ")
		switch {
		case !reachable:
			f = f.as(Bad, "The kernel has the device, but there is no /dev/infiniband/uverbs* "+
				"for it, so programs cannot open it.",
				"modprobe ib_uverbs; in a container, pass the devices on (docker run "+
					"--device=/dev/infiniband)")
		case !active:
			f = f.as(Warn, "No port is active: programs can open the device but not connect.",
				"check the cable, and the subnet manager (InfiniBand) or the interface (ip link "+
					"set up)")
		case strings.HasPrefix(device.Name, "rxe"), strings.HasPrefix(device.Name, "siw"):
			f = f.as(Note, "This is RDMA in software over an ordinary interface: good for trying "+
				"verbs, not for measuring their speed. "+rdmaUsers, "")
		}
		findings = append(findings, f)
	}
	return findings
}

// library is a native library that a transport uses.
type library struct {
	soname  string // without the version: "libucp.so"
	pkg     string // Debian package, for the version
	header  string // below /usr/include; empty if none is needed
	install string
	use     string
}

var nativeLibraries = []library{
	{"libibverbs.so", "libibverbs1", "infiniband/verbs.h",
		"apt-get install libibverbs-dev ibverbs-providers",
		"Transports use RDMA devices by it (provider=verbs)."},
	{"libucp.so", "libucx0", "ucp/api/ucp.h", "apt-get install libucx-dev",
		"A transport over UCX needs it."},
	{"libfabric.so", "libfabric1", "rdma/fabric.h", "apt-get install libfabric-dev",
		"A transport over libfabric needs it."},
	{"libcuda.so", "libcuda1", "", "install NVIDIA's driver, which includes the library",
		"Transports use GPUs by it (mode=gpu)."},
}

// Libraries returns the versions and files of the native libraries of this machine that transports
// use, by name, in about 5 ms.
func Libraries() map[string]string {
	x := examiner{root: "/", arch: runtime.GOARCH, loaderPath: os.Getenv("LD_LIBRARY_PATH")}
	found := map[string]string{}
	for _, f := range x.libraries() {
		found[f.Name] = f.Value
	}
	return found
}

func (x *examiner) libraries() []Finding {
	dirs := x.loaderDirs()
	var findings []Finding
	for _, lib := range nativeLibraries {
		f := Finding{Name: strings.TrimSuffix(lib.soname, ".so"), Status: OK, Meaning: lib.use}
		f.Value = x.findLibrary(dirs, lib.soname)
		if f.Value == "" {
			f.Value = "not installed"
			findings = append(findings, f.as(Note, lib.use, lib.install))
			continue
		}
		if version := x.packageVersion(lib.pkg); version != "" {
			f.Value = version + ", " + f.Value
		}
		if lib.header != "" && !x.root.Exists("usr/include", lib.header) &&
			!x.root.Exists("usr/local/include", lib.header) {
			f = f.as(Note, lib.use+" The headers for building against it are missing.", lib.install)
		}
		findings = append(findings, f)
	}
	return findings
}

// triplets has the names of Debian's library directories by architecture.
var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// loaderDirs returns the loader's directories in order, without those of other architectures.
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
		return !strings.HasPrefix(dir, "/") || strings.Contains(dir, "-linux-gnu") &&
			path.Base(dir) != triplet
	})
}

// findLibrary returns the file of a library's newest version, with links resolved, or "".
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

// packageVersion returns the version of an installed Debian package, or "", because a library's
// file name says little about its release. Debian appended t64 to some names when time_t changed.
func (x *examiner) packageVersion(pkg string) string {
	status := "\n" + x.root.Text("var/lib/dpkg/status")
	for _, name := range []string{pkg, pkg + "t64"} {
		for rest, found := status, true; found; {
			if _, rest, found = strings.Cut(rest, "\nPackage: "+name+"\n"); !found {
				break
			}
			paragraph, _, _ := strings.Cut(rest, "\n\n")
			version, installed := "", false
			for line := range strings.Lines(paragraph) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				switch key {
				case "Version":
					version = value
				case "Status":
					installed = strings.HasSuffix(value, " installed")
				}
			}
			if installed {
				return version
			}
		}
	}
	return ""
}

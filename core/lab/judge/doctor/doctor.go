package doctor

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core"
	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/lab/judge/calibration"
)

// Status is the severity of a finding.
type Status string

// The statuses, from best to worst.
const (
	OK   Status = "ok"   // as it should be
	Note Status = "note" // worth knowing; the results are valid
	Warn Status = "warn" // the results suffer
	Bad  Status = "bad"  // something cannot run
)

// Finding is one fact about the machine.
type Finding struct {
	// Host is the host that has it, if several are examined, and empty for what concerns them all.
	Host    string `json:"host,omitempty"`
	Name    string `json:"name"`
	Value   string `json:"value"` // what was found; never empty
	Status  Status `json:"status"`
	Meaning string `json:"meaning"`          // for the results, in one sentence
	Remedy  string `json:"remedy,omitempty"` // empty if there is nothing to fix
	Paths   *Paths `json:"paths,omitempty"`  // between hosts, of the finding that sums them up
}

// as returns f with another status, meaning and remedy.
func (f Finding) as(status Status, meaning, remedy string) Finding {
	f.Status, f.Meaning, f.Remedy = status, meaning, remedy
	return f
}

// unknown returns f for a fact that the machine does not reveal.
func (f Finding) unknown(meaning string) Finding {
	f.Value = "not visible"
	return f.as(Note, meaning, "")
}

// Examine examines the machine without changing it, in about 20 ms and the time to read its last
// calibration, which is 0.2 s for a full one. When ctx ends, it returns the
// findings so far.
func Examine(ctx context.Context) []Finding {
	defaults := config.Default()
	x := examiner{
		root:       "/",
		arch:       runtime.GOARCH,
		loaderPath: os.Getenv("LD_LIBRARY_PATH"),
		pollers:    defaults.Daemons + (defaults.Ranks-1)*defaults.Clients,
		allowed:    machine.AllowedCPUs,
		clock:      liveClock,
		counters:   tryCounters,
		filesystem: statFilesystem,
		shareMemfd: shareMemfd,
		openPidfd:  openPidfd,
		find: func(identity map[string]string) calibration.Found {
			return new(calibration.Finder).Find(identity)
		},
		version: core.Version, runtime: core.RuntimeDigest(), now: time.Now,
	}
	return x.examine(ctx)
}

// examiner holds the inputs of the findings. Tests replace the root and the kernel's answers.
type examiner struct {
	root        machine.Root
	arch        string // as in GOARCH
	loaderPath  string // LD_LIBRARY_PATH
	pollers     int    // polling threads of a run with default options
	environment machine.Environment

	allowed    func() ([]int, error)
	clock      func() (name, fault string)
	counters   func() (userOnly bool, err error)
	filesystem func(path string) (size, free uint64, err error)
	shareMemfd func() error
	openPidfd  func() error

	find             func(identity map[string]string) calibration.Found
	version, runtime string // of this command
	now              func() time.Time
}

func (x *examiner) examine(ctx context.Context) []Finding {
	x.environment = x.root.Environment()
	var findings []Finding
	for _, look := range []func() []Finding{
		one(x.cores), one(x.quota), one(x.load), one(x.governor), one(x.turbo), one(x.smt),
		one(x.virtualisation), one(x.isolation), one(x.numa),
		one(x.timeSource), one(x.perfEvents), one(x.mitigations), one(x.aslr),
		one(x.hugePages), one(x.transparentHugePages), one(x.lockedMemory), one(x.devShm),
		one(x.memfd),
		x.rdma, x.libraries, one(x.calibration),
	} {
		if ctx.Err() != nil {
			break
		}
		findings = append(findings, look()...)
	}
	return findings
}

func one(look func() Finding) func() []Finding {
	return func() []Finding { return []Finding{look()} }
}

func liveClock() (name, fault string) {
	clock := machine.Calibrated()
	return clock.Name(), clock.Fallback()
}

func tryCounters() (userOnly bool, err error) {
	counters, err := machine.OpenCounters()
	if err != nil {
		return false, err
	}
	defer func() { _ = counters.Close() }()
	return counters.UserOnly(), nil
}

func statFilesystem(path string) (size, free uint64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, 0, err
	}
	block := uint64(stat.Bsize)
	return stat.Blocks * block, stat.Bavail * block, nil
}

// shareMemfd opens an anonymous file a second time through /proc, like a peer process.
func shareMemfd() error {
	fd, err := unix.MemfdCreate("transportbench-doctor", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	defer func() { _ = unix.Close(fd) }()
	again, err := os.OpenFile("/proc/"+strconv.Itoa(os.Getpid())+"/fd/"+strconv.Itoa(fd),
		os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return again.Close()
}

func openPidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

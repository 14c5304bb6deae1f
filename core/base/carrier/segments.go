package carrier

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/transport"
)

// segments describes the shared memory that the process has mapped, by its kind and the size of its
// pages: "memfd 24MiB in pages of 4KiB".
func segments() string {
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return ""
	}
	defer file.Close()
	return segmentsIn(file)
}

func segmentsIn(smaps io.Reader) string {
	type class struct{ kind, page string }
	sizes := map[class]int64{}
	var kind string // of the mapping; empty if it is not shared
	var size int64
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			kind, size = "", 0
			if strings.HasSuffix(fields[1], "s") && strings.Contains(fields[1], "w") {
				name := ""
				if len(fields) > 5 {
					name = fields[5]
				}
				kind = segmentKind(name)
			}
		case kind != "" && len(fields) == 3 && fields[0] == "Size:":
			size, _ = strconv.ParseInt(fields[1], 10, 64)
		case kind != "" && len(fields) == 3 && fields[0] == "KernelPageSize:":
			page, _ := strconv.ParseInt(fields[1], 10, 64)
			sizes[class{kind, transport.FormatSize(page << 10)}] += size << 10
		}
	}
	var list []string
	for _, c := range slices.SortedFunc(maps.Keys(sizes),
		func(a, b class) int { return strings.Compare(a.kind+a.page, b.kind+b.page) }) {
		list = append(list, fmt.Sprintf("%s %s in pages of %s", c.kind,
			transport.FormatSize(sizes[c]), c.page))
	}
	return strings.Join(list, ", ")
}

// segmentKind returns the kind of a shared mapping with that name, or "" for one that carries no
// messages, such as a file or a device's registers.
func segmentKind(name string) string {
	switch {
	case strings.HasPrefix(name, "/memfd:"):
		return "memfd"
	case strings.HasPrefix(name, "/dev/shm/"):
		return "/dev/shm"
	case strings.HasPrefix(name, "/SYSV"):
		return "sysv"
	case strings.HasPrefix(name, "/anon_hugepage"):
		return "hugetlb"
	case strings.HasPrefix(name, "/dev/zero"):
		return "anonymous"
	}
	return ""
}

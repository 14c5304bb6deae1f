package cpulist

import (
	"fmt"
	"strconv"
	"strings"
)

// Max is more than any kernel supports.
const Max = 1 << 14

// Format formats ascending processor numbers in the kernel's list format, "0-3,8".
func Format(cpus []int) string {
	var b strings.Builder
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(cpus[i]))
		if j > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(cpus[j]))
		}
		i = j + 1
	}
	return b.String()
}

// Parse parses the kernel's list format. The numbers must ascend and be below Max.
func Parse(text string) ([]int, error) {
	var cpus []int
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	next := 0
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q is not a list of processors such as 0-3,8", text)
		}
		to, err := strconv.ParseUint(high, 10, 16)
		if err != nil || to < from || int(from) < next || to >= Max {
			return nil, fmt.Errorf("%q is not a list of processors such as 0-3,8", text)
		}
		for cpu := int(from); cpu <= int(to); cpu++ {
			cpus = append(cpus, cpu)
		}
		next = int(to) + 1
	}
	return cpus, nil
}

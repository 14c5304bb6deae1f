package pmi

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Job is the connection of a task to its launcher.
type Job struct {
	Rank, Size int

	connection io.ReadWriteCloser
	lines      *bufio.Reader
	space      string // the name of the job's key-value space
	valueMax   int
}

// Open returns the job that this process is a task of, or nil if no launcher offers PMI-1. getenv
// is [os.Getenv], except in tests.
func Open(getenv func(string) string) (*Job, error) {
	if getenv("PMI_FD") == "" {
		return nil, nil
	}
	var numbers [3]int
	for i, name := range []string{"PMI_FD", "PMI_RANK", "PMI_SIZE"} {
		n, err := strconv.Atoi(getenv(name))
		if err != nil {
			return nil, fmt.Errorf("read PMI's variables: %s=%q is not a number", name,
				getenv(name))
		}
		numbers[i] = n
	}
	j := &Job{Rank: numbers[1], Size: numbers[2], connection: os.NewFile(uintptr(numbers[0]),
		"PMI_FD")}
	return j, j.begin()
}

// begin makes the launcher's acquaintance.
func (j *Job) begin() error {
	j.lines = bufio.NewReader(j.connection)
	if _, err := j.ask("init pmi_version=1 pmi_subversion=1", "response_to_init"); err != nil {
		return err
	}
	limits, err := j.ask("get_maxes", "maxes")
	if err != nil {
		return err
	}
	if j.valueMax, err = strconv.Atoi(limits["vallen_max"]); err != nil {
		return fmt.Errorf("PMI get_maxes: vallen_max=%q is not a number", limits["vallen_max"])
	}
	name, err := j.ask("get_my_kvsname", "my_kvsname")
	j.space = name["kvsname"]
	return err
}

// LongestValue returns how many bytes a value may have.
func (j *Job) LongestValue() int { return j.valueMax - 1 }

// Share returns rank 0's value in every task. All tasks call it with the same key; it returns when
// all have. The value has no spaces.
func (j *Job) Share(key, value string) (string, error) {
	if j.Rank == 0 {
		if len(value) > j.LongestValue() {
			return "", fmt.Errorf("PMI put %s: %d bytes, and the launcher takes less than %d", key,
				len(value), j.valueMax)
		}
		if _, err := j.ask(fmt.Sprintf("put kvsname=%s key=%s value=%s", j.space, key, value),
			"put_result"); err != nil {
			return "", err
		}
	}
	if _, err := j.ask("barrier_in", "barrier_out"); err != nil {
		return "", err
	}
	if j.Rank == 0 {
		return value, nil
	}
	got, err := j.ask(fmt.Sprintf("get kvsname=%s key=%s", j.space, key), "get_result")
	return got["value"], err
}

// Close tells the launcher that the task ends regularly; without it, the launcher ends the other
// tasks as well.
func (j *Job) Close() error {
	_, err := j.ask("finalize", "finalize_ack")
	if closing := j.connection.Close(); err == nil {
		err = closing
	}
	return err
}

// ask sends a command and returns the fields of its answer.
func (j *Job) ask(command, answer string) (map[string]string, error) {
	name, _, _ := strings.Cut(command, " ")
	if _, err := io.WriteString(j.connection, "cmd="+command+"\n"); err != nil {
		return nil, fmt.Errorf("PMI %s: %w", name, err)
	}
	line, err := j.lines.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("PMI %s: read the answer: %w", name, err)
	}
	fields := map[string]string{}
	for _, field := range strings.Fields(line) {
		key, value, _ := strings.Cut(field, "=")
		fields[key] = value
	}
	if fields["cmd"] != answer {
		return nil, fmt.Errorf("PMI %s: the launcher answered %q", name, strings.TrimSpace(line))
	}
	if rc, has := fields["rc"]; has && rc != "0" {
		return nil, fmt.Errorf("PMI %s: the launcher answered %q", name, strings.TrimSpace(line))
	}
	return fields, nil
}

package pmi

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// launcher answers the tasks of one job as srun and hydra do.
type launcher struct {
	size    int
	mu      sync.Mutex
	values  map[string]string
	waiting []net.Conn
	ended   int
}

func (l *launcher) serve(c net.Conn) {
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		fields := map[string]string{}
		for _, f := range strings.Fields(lines.Text()) {
			k, v, _ := strings.Cut(f, "=")
			fields[k] = v
		}
		l.answer(c, fields)
	}
}

func (l *launcher) answer(c net.Conn, fields map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch fields["cmd"] {
	case "init":
		fmt.Fprintln(c, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	case "get_maxes":
		fmt.Fprintln(c, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=100")
	case "get_my_kvsname":
		fmt.Fprintln(c, "cmd=my_kvsname kvsname=job.1")
	case "put":
		l.values[fields["kvsname"]+"/"+fields["key"]] = fields["value"]
		fmt.Fprintln(c, "cmd=put_result rc=0 msg=success")
	case "get":
		if v, has := l.values[fields["kvsname"]+"/"+fields["key"]]; has {
			fmt.Fprintln(c, "cmd=get_result rc=0 msg=success value="+v)
		} else {
			fmt.Fprintln(c, "cmd=get_result rc=-1 msg=key_not_found")
		}
	case "barrier_in":
		if l.waiting = append(l.waiting, c); len(l.waiting) == l.size {
			for _, w := range l.waiting {
				fmt.Fprintln(w, "cmd=barrier_out")
			}
			l.waiting = nil
		}
	case "finalize":
		l.ended++
		fmt.Fprintln(c, "cmd=finalize_ack")
	}
}

// job returns the tasks of a job of size tasks.
func job(t *testing.T, size int) (*launcher, []*Job) {
	l := &launcher{size: size, values: map[string]string{}}
	tasks := make([]*Job, size)
	for i := range tasks {
		here, there := net.Pipe()
		go l.serve(there)
		tasks[i] = &Job{Rank: i, Size: size, connection: here}
		require.NoError(t, tasks[i].begin())
	}
	return l, tasks
}

func TestShare(t *testing.T) {
	l, tasks := job(t, 3)
	got := make([]string, len(tasks))
	errs := make([]error, len(tasks))
	var all sync.WaitGroup
	for i, task := range tasks {
		all.Go(func() {
			value := ""
			if i == 0 {
				value = "host:7177/token==" // Cut leaves the rest of a value alone
			}
			if got[i], errs[i] = task.Share("ticket", value); errs[i] == nil {
				errs[i] = task.Close()
			}
		})
	}
	all.Wait()
	for i := range tasks {
		require.NoError(t, errs[i])
		require.Equal(t, "host:7177/token==", got[i])
	}
	require.Equal(t, 3, l.ended)
}

func TestShareErrors(t *testing.T) {
	_, tasks := job(t, 1)
	_, err := tasks[0].Share("ticket", strings.Repeat("x", 100))
	require.EqualError(t, err, "PMI put ticket: 100 bytes, and the launcher takes less than 100")
	_, err = tasks[0].ask("get kvsname=job.1 key=other", "get_result")
	require.EqualError(t, err,
		`PMI get: the launcher answered "cmd=get_result rc=-1 msg=key_not_found"`)
	_, err = tasks[0].ask("init", "put_result")
	require.ErrorContains(t, err, `PMI init: the launcher answered "cmd=response_to_init`)
	require.NoError(t, tasks[0].connection.Close())
	require.Error(t, tasks[0].Close())
}

func TestOpen(t *testing.T) {
	none, err := Open(func(string) string { return "" })
	require.NoError(t, err)
	require.Nil(t, none)
	_, err = Open(func(name string) string {
		return map[string]string{"PMI_FD": "9",
			"PMI_RANK": "one"}[name]
	})
	require.EqualError(t, err, `read PMI's variables: PMI_RANK="one" is not a number`)
}

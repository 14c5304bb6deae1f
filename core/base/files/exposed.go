package files

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const ownDirectory = "use a directory that only you can write"

// ExposedError reports a file or directory that another user could replace.
type ExposedError struct{ Path, Problem, Remedy string }

func (e *ExposedError) Error() string {
	return fmt.Sprintf("%s %s: %s", e.Path, e.Problem, e.Remedy)
}

// CheckExposed returns an [*ExposedError] if a user who is not [Trusted] could change what path,
// which is absolute, leads to: the file itself, or a directory or symbolic link on the way from the
// root. Others may write to a sticky directory, such as /tmp, because they can replace nothing in
// it.
func CheckExposed(path string) error {
	root, err := start("/")
	if err != nil {
		return err
	}
	defer root.close()
	if err := exposed(root); err != nil {
		return err
	}
	t, err := walk(path, func(dir, entry *node) error {
		if err := exposed(entry); err != nil {
			return err
		}
		// Others may have linked any file of a trusted user here, in place of the one that was
		// meant.
		if links := stat(entry).Nlink; links > 1 && !entry.info.IsDir() && writers(dir) != "" {
			return &ExposedError{entry.file.Name(),
				fmt.Sprintf("has %d hard links in a directory that %s may write", links,
					writers(dir)), ownDirectory}
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	defer t.close()
	if t.entry == nil {
		return &fs.PathError{Op: "open", Path: t.dir.path(t.name), Err: unix.ENOENT}
	}
	return nil
}

// exposed is [CheckExposed] for one file, directory or link.
func exposed(n *node) error {
	path, has := n.file.Name(), stat(n)
	if !Trusted(has.Uid) {
		return &ExposedError{path, fmt.Sprintf("belongs to user %s, not to you or root",
			userName(has.Uid)), ownDirectory}
	}
	sticky := n.info.Mode()&fs.ModeSticky != 0
	if n.isLink() || n.info.IsDir() && sticky {
		return nil
	}
	who := writers(n)
	if who == "" {
		return nil
	}
	bit := "g"
	if has.Mode&0o002 != 0 {
		bit = "o"
	}
	remedy := fmt.Sprintf("chmod %s-w %s", bit, path)
	if n.info.IsDir() {
		remedy += ", or chmod +t it"
	}
	return &ExposedError{path, "can be written by " + who, remedy}
}

// writers names those who are not [Trusted] and may write n, by its mode and its access control
// list. It returns "" if there are none.
func writers(n *node) string {
	switch has := stat(n); {
	case has.Mode&0o002 != 0:
		return "every user"
	case has.Mode&0o020 != 0 && (hasACL(n) || !isPrivateGroup(has.Gid)):
		return "group " + groupName(has.Gid)
	}
	return ""
}

var trustedUsers = sync.OnceValue(func() []uint32 {
	users := []uint32{0, uint32(os.Geteuid())}
	for _, path := range []string{"/", "/proc/self/exe"} {
		var stat unix.Stat_t
		if unix.Stat(path, &stat) == nil {
			users = append(users, stat.Uid)
		}
	}
	return users
})

// Trusted reports whether a user can make this process do anything already: root, the user of this
// process, the owner of the root directory (which is root under another number in some user
// namespaces), or the owner of the running executable (which root may run with sudo from another
// user's checkout).
func Trusted(uid uint32) bool { return slices.Contains(trustedUsers(), uid) }

func userName(uid uint32) string {
	number := strconv.Itoa(int(uid))
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}

func groupName(gid uint32) string {
	number := strconv.Itoa(int(gid))
	if g, err := user.LookupGroupId(number); err == nil {
		return g.Name
	}
	return number
}

// hasACL reports whether a file has an access control list. The bits of the group are then the most
// that any user or group in the list may do (acl(5)).
func hasACL(n *node) bool {
	// fgetxattr refuses descriptors of O_PATH.
	_, err := unix.Getxattr("/proc/self/fd/"+strconv.Itoa(int(n.file.Fd())),
		"system.posix_acl_access", nil)
	return !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP)
}

// isPrivateGroup reports whether the only member of a group is trusted. Systems that give each
// user a group of the same name make files group-writable by default (see pam_umask(8),
// usergroups).
func isPrivateGroup(gid uint32) bool {
	g, err := user.LookupGroupId(strconv.Itoa(int(gid)))
	if err != nil {
		return false
	}
	owner, err := user.Lookup(g.Name)
	if err != nil || owner.Gid != g.Gid {
		return false
	}
	uid, err := strconv.ParseUint(owner.Uid, 10, 32)
	if err != nil || !Trusted(uint32(uid)) {
		return false
	}
	return !hasOtherMembers("/etc/group", g.Gid, owner.Username) &&
		!isPrimaryOfOthers("/etc/passwd", g.Gid, owner.Username)
}

// hasOtherMembers reports whether a file such as /etc/group lists members of the group other than
// name.
func hasOtherMembers(file, gid, name string) bool {
	return anyLine(file, func(fields []string) bool {
		return len(fields) == 4 && fields[2] == gid && strings.Trim(fields[3], " ") != "" &&
			fields[3] != name
	})
}

// isPrimaryOfOthers reports whether a file such as /etc/passwd lists users other than name with the
// group.
func isPrimaryOfOthers(file, gid, name string) bool {
	return anyLine(file, func(fields []string) bool {
		return len(fields) == 7 && fields[3] == gid &&
			fields[0] != name
	})
}

func anyLine(path string, match func(fields []string) bool) bool {
	file, err := os.Open(path)
	if err != nil {
		return true // cannot be excluded
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if match(strings.Split(lines.Text(), ":")) {
			return true
		}
	}
	return lines.Err() != nil
}

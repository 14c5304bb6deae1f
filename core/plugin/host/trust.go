package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"transportbench/core/base/files"
)

// ExposedError reports a file or directory that another user could replace.
type ExposedError struct{ Path, Problem, Remedy string }

func (e *ExposedError) Error() string { return fmt.Sprintf("%s %s: %s", e.Path, e.Problem, e.Remedy) }

// mostLinks is how many symbolic links a path may have, as in the kernel (MAXSYMLINKS).
const mostLinks = 40

// checkExposed returns an [*ExposedError] if a user who is not [files.Trusted] could change what path,
// which is absolute, leads to: the file itself, or a directory or symbolic link on the way from the
// root. Others may write to a sticky directory, such as /tmp, because they can replace nothing in it.
func checkExposed(path string) error {
	if err := exposed("/"); err != nil {
		return err
	}
	current, rest, links := "/", split(path), 0
	for len(rest) > 0 {
		next := filepath.Join(current, rest[0]) // current has no links, so that ".." is its parent
		rest = rest[1:]
		if err := exposed(next); err != nil {
			return err
		}
		target, err := os.Readlink(next)
		switch {
		case err == nil:
			if links++; links > mostLinks {
				return &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
			}
			if filepath.IsAbs(target) {
				current = "/"
			}
			rest = append(split(target), rest...)
		case errors.Is(err, unix.EINVAL): // no link
			current = next
		default:
			return err
		}
	}
	return nil
}

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" })
}

// exposed is [checkExposed] for one file, directory or link.
func exposed(path string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if !files.Trusted(stat.Uid) {
		return &ExposedError{path, fmt.Sprintf("belongs to user %s, not to you or root", userName(stat.Uid)),
			fmt.Sprintf("chown -h %s it, or move what is yours", userName(uint32(os.Geteuid())))}
	}
	kind := stat.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK || kind == unix.S_IFDIR && stat.Mode&unix.S_ISVTX != 0 {
		return nil
	}
	or := ""
	if kind == unix.S_IFDIR {
		or = ", or chmod +t it"
	}
	switch {
	case stat.Mode&0o002 != 0:
		return &ExposedError{path, "can be written by every user", "chmod o-w " + path + or}
	case stat.Mode&0o020 != 0 && (hasACL(path) || !isPrivateGroup(stat.Gid)):
		return &ExposedError{path, fmt.Sprintf("can be written by group %s", groupName(stat.Gid)), "chmod g-w " + path + or}
	}
	return nil
}

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
func hasACL(path string) bool {
	_, err := unix.Lgetxattr(path, "system.posix_acl_access", nil)
	return !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP)
}

// isPrivateGroup reports whether the only member of a group is trusted. Systems that give each
// user a group of the same name make files group-writable by default (see pam_umask(8), usergroups).
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
	if err != nil || !files.Trusted(uint32(uid)) {
		return false
	}
	return !hasOtherMembers("/etc/group", g.Gid, owner.Username) && !isPrimaryOfOthers("/etc/passwd", g.Gid, owner.Username)
}

// hasOtherMembers reports whether a file such as /etc/group lists members of the group other than name.
func hasOtherMembers(file, gid, name string) bool {
	return anyLine(file, func(fields []string) bool {
		return len(fields) == 4 && fields[2] == gid && strings.Trim(fields[3], " ") != "" && fields[3] != name
	})
}

// isPrimaryOfOthers reports whether a file such as /etc/passwd lists users other than name with the group.
func isPrimaryOfOthers(file, gid, name string) bool {
	return anyLine(file, func(fields []string) bool { return len(fields) == 7 && fields[3] == gid && fields[0] != name })
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

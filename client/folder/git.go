package folder

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/lazy"
)

// Metadata tell people where a project comes from.
type Metadata struct {
	// Branch is that of the working copy, "" where HEAD is on none.
	Branch string `json:"branch"`
	// RepositoryURL is the address of the branch's remote, without the names, passwords and tokens that may be in it; ""
	// for one that is a path of this machine.
	RepositoryURL string `json:"repoUrl,omitempty"`
	// SHA is the commit, "" where there is none yet.
	SHA string `json:"sha,omitempty"`
}

// encode is the metadata file, nil without a branch: there is no deployment of none.
func (m Metadata) encode() []byte {
	if m.Branch == "" {
		return nil
	}
	data, _ := json.Marshal(m) // texts always can
	return append(data, '\n')
}

// gitTime bounds what git may take: it reads three small files.
const gitTime = 10 * time.Second

// readMetadata asks git about a folder. Where git is not there, or knows no repository, nothing is told.
func readMetadata(ctx context.Context, dir string) Metadata {
	if top, ok := repositoryTop(dir); ok && !readable(filepath.Join(top, ".git")) {
		return Metadata{}
	}
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...) //nolint:gosec // the words are ours, the folder and names are single arguments
		cmd.Env = gitEnv(os.Environ())
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(string(out), "\n")
	}
	if git("rev-parse", "--is-inside-work-tree") != "true" {
		return Metadata{}
	}
	m := Metadata{
		Branch: git("symbolic-ref", "--quiet", "--short", "HEAD"), // of a branch without a commit too
		SHA:    git("rev-parse", "--quiet", "--verify", "HEAD"),
	}
	remote := "origin"
	if m.Branch != "" {
		if its := git("config", "--get", "branch."+m.Branch+".remote"); its != "" {
			remote = its
		}
	}
	// `git remote get-url` would answer what url.insteadOf makes of it, which may have a token of this machine.
	m.RepositoryURL = publicURL(git("config", "--get", "remote."+remote+".url"))
	return m
}

// readable reports whether git reads a repository without waiting for anybody: a pipe in the place of one of its files has no end.
func readable(repository string) bool {
	for _, name := range []string{"HEAD", "config", "packed-refs", "commondir"} {
		info, err := os.Stat(filepath.Join(repository, name))
		if err == nil && !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// gitEnv leaves out what has git look elsewhere than in the folder, as it is set within its hooks.
func gitEnv(env []string) []string {
	out := []string{"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"}
	for _, e := range env {
		if !strings.HasPrefix(e, "GIT_") {
			out = append(out, e)
		}
	}
	return out
}

// scpLike is git's short form of an ssh address: user@host:path.
var scpLike = lazy.Regexp(`^(?:[^@/\s]+@)?([A-Za-z0-9][A-Za-z0-9.-]+):([^\s\\]+)$`)

// publicURL is a remote's address as it may be told: host and path. A user, a password, a query and a fragment may each
// be, or hold, a token.
func publicURL(remote string) string {
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		switch u.Scheme {
		case "http", "https", "ssh", "git":
			return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
		}
		return ""
	}
	if m := scpLike().FindStringSubmatch(remote); m != nil && !strings.Contains(remote, "://") && !strings.Contains(remote, "::") && !strings.Contains(m[2], "@") {
		return (&url.URL{Scheme: "ssh", Host: m[1], Path: "/" + strings.TrimPrefix(m[2], "/")}).String()
	}
	return ""
}

// InRepository is the way from the top of the project's repository to its folder, with slashes; "" where these are one,
// or there is no repository.
func (p *Project) InRepository() string {
	top, ok := repositoryTop(p.realDir)
	way, err := filepath.Rel(top, p.realDir)
	if !ok || err != nil || way == "." {
		return ""
	}
	return filepath.ToSlash(way)
}

// repositoryTop is the folder that is a repository's working copy, or a submodule's, and that dir is in.
func repositoryTop(dir string) (top string, ok bool) {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, true
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
		dir = filepath.Dir(dir)
	}
}

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

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// Metadata describes the commit from which a project was uploaded, for people who look at the deployment.
type Metadata struct {
	// Branch is the current branch of the working copy, "" if HEAD is detached.
	Branch string `json:"branch"`
	// RepositoryURL is the address of the branch's remote, without user names,
	// passwords and tokens. It is "" if the remote is a path on this machine.
	RepositoryURL string `json:"repoUrl,omitempty"`
	// SHA is the commit, "" in a repository without commits.
	SHA string `json:"sha,omitempty"`
}

// encode returns the content of the metadata file. It returns nil without a branch, because a deployment always has a
// branch.
func (m Metadata) encode() []byte {
	if m.Branch == "" {
		return nil
	}
	data, _ := json.Marshal(m) // text can always be encoded
	return append(data, '\n')
}

// gitTimeout is the time limit for all git commands together. They only read a few small files.
const gitTimeout = 10 * time.Second

// readMetadata runs git in a folder. The result is empty without git, outside of a repository, and for a repository
// that could block git.
func readMetadata(ctx context.Context, dir string) Metadata {
	if top, ok := repositoryTop(dir); ok && !isReadableRepository(filepath.Join(top, ".git")) {
		return Metadata{}
	}
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...) //nolint:gosec // G204: no shell runs
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
		Branch: git("symbolic-ref", "--quiet", "--short", "HEAD"), // works for a branch without commits, too
		SHA:    git("rev-parse", "--quiet", "--verify", "HEAD"),
	}
	remote := "origin"
	if m.Branch != "" {
		if branchRemote := git("config", "--get", "branch."+m.Branch+".remote"); branchRemote != "" {
			remote = branchRemote
		}
	}
	// `git remote get-url` would apply the user's url.insteadOf, which can add a token.
	m.RepositoryURL = publicURL(git("config", "--get", "remote."+remote+".url"))
	return m
}

// isReadableRepository reports whether git can read a repository without blocking. If one of the repository's files
// were a pipe, git would wait forever.
func isReadableRepository(repository string) bool {
	for _, name := range []string{"HEAD", "config", "packed-refs", "commondir"} {
		info, err := os.Stat(filepath.Join(repository, name))
		if err == nil && !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// gitEnv returns env without git's own variables, and with variables that disable optional locks and prompts. If a git
// hook runs this process, git's own variables name the repository of the hook, which can be another repository.
func gitEnv(env []string) []string {
	out := []string{"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"}
	for _, e := range env {
		if !strings.HasPrefix(e, "GIT_") {
			out = append(out, e)
		}
	}
	return out
}

// scpLike matches git's short form of an ssh address: user@host:path.
var scpLike = lazy.Regexp(`^(?:[^@/\s]+@)?([A-Za-z0-9][A-Za-z0-9.-]+):([^\s\\]+)$`)

// publicURL returns the parts of a remote's address that can be published: scheme, host and path. It omits user,
// password, query and fragment, which can contain a token.
func publicURL(remote string) string {
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		switch u.Scheme {
		case "http", "https", "ssh", "git":
			return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
		}
		return ""
	}
	if m := scpLike().FindStringSubmatch(remote); m != nil && !strings.Contains(remote, "://") &&
		!strings.Contains(remote, "::") && !strings.Contains(m[2], "@") {
		return (&url.URL{Scheme: "ssh", Host: m[1], Path: "/" + strings.TrimPrefix(m[2], "/")}).String()
	}
	return ""
}

// PathInRepository returns the path of the project's folder within its repository, with slashes. It returns "" if the
// project is at the top of the repository, or has no repository.
func (p *Project) PathInRepository() string {
	top, ok := repositoryTop(p.realDir)
	rel, err := filepath.Rel(top, p.realDir)
	if !ok || err != nil || rel == "." {
		return ""
	}
	return filepath.ToSlash(rel)
}

// repositoryTop returns the top folder of the git working copy or submodule that contains dir.
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

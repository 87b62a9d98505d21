package commands

import (
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/client/exit"
)

// pipelineBranches has the values of --branch for pipelines. They name a branch on a push as well as for a pull request
// or a merge request: GitHub sets GITHUB_HEAD_REF only for pull requests.
const pipelineBranches = `--branch "${GITHUB_HEAD_REF:-$GITHUB_REF_NAME}" on GitHub or ` +
	`--branch "$CI_COMMIT_REF_NAME" on GitLab`

// branchName returns the name of the branch that a flag selects: x for refs/heads/x. Other references, such as tags and
// pull requests, are no branches.
func branchName(flag, text string) (string, error) {
	const heads = "refs/heads/"
	name, isBranch := strings.CutPrefix(text, heads)
	switch {
	case isBranch && name == "":
		return "", exit.WithCode(exit.Usage, fmt.Errorf("--%s: %s has no name of a branch: write it after "+
			"%[2]s, or write the name alone", flag, heads))
	case !isBranch && strings.HasPrefix(text, "refs/"):
		return "", exit.WithCode(exit.Usage, fmt.Errorf("--%s: %s is no branch, but another reference of git: name a "+
			"branch, such as main; in a pipeline write %s", flag, text, pipelineBranches))
	}
	return name, nil
}

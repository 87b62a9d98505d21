package deployments

import (
	"context"
	"slices"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

var (
	errHasDomains        = fault.New(fault.Conflict, "Custom domains lead to the deployment. Have them lead to another one, or delete them, first.")
	errProjectHasDomains = fault.New(fault.Conflict, "Custom domains lead to deployments of the project. Have them lead elsewhere, or delete them, first.")
)

// ForDomains reads a deployment that custom domains of its account may lead to. One that
// is not there, or not the caller's to see, is NotFound.
func ForDomains(ctx context.Context, table *store.Table, owner auth.Owner, name string) (Record, error) {
	return find(ctx, table, DeploymentAt{Owner: owner, Deployment: name})
}

// Attachment is a deployment that a custom domain leads to.
type Attachment struct{ Project, Deployment string }

// Reattached are the writes by which a custom domain leads to other deployments than before,
// for the commit that has it do so: deployments and projects count their custom domains,
// and none that has some is deleted. A deployment that is gone by then answers NotFound.
func Reattached(accountID string, before, after []Attachment) []store.Write {
	var writes []store.Write
	var projects []string
	deltas, made := map[string]int64{}, map[string]bool{}
	note := func(a Attachment, n int64) {
		if _, known := deltas[a.Project]; !known {
			projects = append(projects, a.Project)
		}
		deltas[a.Project] += n
		made[a.Project] = made[a.Project] || n > 0
	}
	count := store.At("domains")
	for _, a := range before {
		if !slices.Contains(after, a) {
			note(a, -1)
			writes = append(writes, store.Update(Key(a.Deployment), store.Add(count, -1)))
		}
	}
	for _, a := range after {
		if !slices.Contains(before, a) {
			note(a, 1)
			writes = append(writes, Record{Name: a.Deployment}.update(errNoDeployment, store.Add(count, 1)))
		}
	}
	for _, p := range projects {
		key := store.ProjectKey(accountID, p)
		switch {
		case deltas[p] == 0: // the custom domain holds the project before and after
		case made[p]:
			writes = append(writes, store.Update(key, store.Add(count, deltas[p])).If(store.ProjectStands()).Else(errNoDeployment))
		default:
			writes = append(writes, store.Update(key, store.Add(count, deltas[p])))
		}
	}
	return writes
}

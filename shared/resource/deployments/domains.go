package deployments

import (
	"context"
	"slices"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
)

var (
	errHasDomains = fault.New(fault.Conflict,
		"Custom domains lead to the deployment. Have them lead to another one, or delete them, first.")
	errProjectHasDomains = fault.New(fault.Conflict, "Custom domains lead to deployments of the project. Have them lead "+
		"elsewhere, or delete them, first.")
)

// ReadForDomain reads a deployment to which a custom domain of the caller's account is to be attached. It returns
// NotFound if the deployment is missing, invisible to the caller, or has no build.
func ReadForDomain(ctx context.Context, table *store.Table, owner auth.Owner, name string) (Record, error) {
	return find(ctx, table, DeploymentLocator{Owner: owner, Deployment: name})
}

// Attachment is a deployment to which a custom domain is attached.
type Attachment struct{ Project, Deployment string }

// AttachmentWrites returns the writes for the commit that changes the deployments of a custom domain from before to
// after. Deployments and projects count their custom domains, and cannot be deleted while they have one. The commit
// fails with NotFound if a deployment that is only in after was deleted, or if its project is being deleted.
func AttachmentWrites(accountID string, before, after []Attachment) []store.Write {
	var writes []store.Write
	var projects []string
	deltas, added := map[string]int64{}, map[string]bool{}
	add := func(a Attachment, n int64) {
		if _, ok := deltas[a.Project]; !ok {
			projects = append(projects, a.Project)
		}
		deltas[a.Project] += n
		added[a.Project] = added[a.Project] || n > 0
	}
	count := store.At("domains")
	for _, a := range before {
		if !slices.Contains(after, a) {
			add(a, -1)
			writes = append(writes, store.Update(Key(a.Deployment), store.Add(count, -1)))
		}
	}
	for _, a := range after {
		if !slices.Contains(before, a) {
			add(a, 1)
			writes = append(writes, Record{Name: a.Deployment}.updateWrite(errNoDeployment, store.Add(count, 1)))
		}
	}
	for _, p := range projects {
		key := store.ProjectKey(accountID, p)
		switch {
		case deltas[p] == 0: // the custom domain has equally many deployments of the project before and after
		case added[p]:
			writes = append(writes,
				store.Update(key, store.Add(count, deltas[p])).If(store.ProjectActive()).Else(errNoDeployment))
		default:
			writes = append(writes, store.Update(key, store.Add(count, deltas[p])))
		}
	}
	return writes
}

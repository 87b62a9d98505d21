package files

import (
	"maps"
	"slices"
	"strings"
)

// addProjectBuckets adds to existing the desired key buckets that the API creates together with new projects.
func (p *planner) addProjectBuckets(
	desired map[string]*object, existing map[string]*remoteObject, k *Kind, parent *remoteObject,
) {
	for name := range desired {
		if owner, envType := keyBucketOwner(name); p.createdProjects[owner] && existing[name] == nil {
			existing[name] = &remoteObject{
				kind: k, name: name, id: name, parent: parent, withProject: true, isNew: true, etag: "*",
				fields: map[string]Value{"tags": mustMarshal(map[string]string{
					"account": p.account, "environmentType": envType, "project": owner,
				})},
			}
		}
	}
}

// projectBucketTypes has the suffixes of the names of a project's key buckets, each with the value of the bucket's tag
// environmentType (docs/key-buckets.md).
var projectBucketTypes = map[string]string{
	"-production": "PRODUCTION", "-preview": "PREVIEW", "-working-copy": "WORKING_COPY",
}

// ProjectBucketNames returns the names of the buckets that are created and deleted with a project, sorted.
func ProjectBucketNames(project string) []string {
	var names []string
	for _, suffix := range slices.Sorted(maps.Keys(projectBucketTypes)) {
		names = append(names, project+suffix)
	}
	return names
}

// keyBucketOwner returns the project to which a key bucket with this name belongs, and the type of its environment.
// owner is "" if the name is not that of a project's bucket. The API refuses the names of projects' buckets for other
// buckets.
func keyBucketOwner(name string) (owner, envType string) {
	for suffix, envType := range projectBucketTypes {
		if owner, ok := strings.CutSuffix(name, suffix); ok {
			return owner, envType
		}
	}
	return "", ""
}

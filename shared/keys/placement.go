package keys

import (
	"context"
	"strings"

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
)

// Whose keys a gateway accepts is decided here, and rests on two rules. A bucket
// serves the project and the kind of environment that it is placed at, all where
// it is placed at none; so everybody who sees a bucket, and could make it or its
// keys, sees each gateway that accepts them. And a name that ends in a kind of
// environment is that project's whose name stands before it, so that nobody keeps
// a project from its own buckets. The reasons are in
// docs/decisions/0029-a-bucket-serves-where-it-is-placed.md.

// serves reports whether gateways of a project's environments of a kind accept
// the bucket's keys.
func (b bucketRecord) serves(project string, kind environment.Kind) bool {
	return (b.Project == "" || b.Project == project) && (b.Environment == "" || b.Environment == kind)
}

// ownerOf gives the project and the kind of environment whose default bucket is
// the only one that may have the name, whether or not there is such a project.
// ok is false for a name that is free.
func ownerOf(name string) (project string, kind environment.Kind, ok bool) {
	for _, kind := range environment.Kinds() {
		if project, ends := strings.CutSuffix(name, "-"+kind.Slug()); ends && project != "" {
			return project, kind, true
		}
	}
	return "", "", false
}

// placedName refuses a name that belongs to another project or kind than the
// bucket is placed at. What exists does not matter, so that the answer tells
// nobody of it.
func (p *problems) placedName(name string, tags map[string]string) {
	var b bucketRecord
	b.place(tags)
	if project, kind, owned := ownerOf(name); owned && (b.Project != project || b.Environment != kind) {
		p.Add("name", "names that end in -production, -preview or -working-copy belong to the project whose name stands before that: "+
			"give the bucket the tags project and environmentType (PRODUCTION, PREVIEW or WORKING_COPY) of that project, or choose another name")
	}
}

// BucketID names a bucket for good. The name is where its record is found, the id
// says which of the buckets of the name it is.
type BucketID struct{ ID, Name string }

// BucketFor finds the bucket that gateways of a project's environments of a kind
// are to verify keys by. It has to be seen by the caller and to serve them; what
// does not, or does not exist, is NotFound.
func (s *Service) BucketFor(ctx context.Context, at BucketAt, project string, kind environment.Kind) (BucketID, error) {
	v, err := s.loadBucket(ctx, at)
	if err != nil {
		return BucketID{}, err
	}
	if !v.bucket.serves(project, kind) {
		return BucketID{}, errNoBucket
	}
	return BucketID{ID: v.bucket.ID, Name: v.bucket.Name}, nil
}

// errForeignBucket is told to who makes a project, which has the name; nobody else
// learns of the bucket.
func errForeignBucket(name string) error {
	return fault.New(fault.Conflict, "The key bucket %s is there already and placed at another project or kind of environment, "+
		"and this project needs the name for a bucket of its own. Have the bucket deleted, with its consumers and keys, or choose another name for the project.", name)
}

package keys

import (
	"context"
	"strings"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// This file decides which buckets' keys a gateway accepts, with two rules. First, a bucket serves only the project and
// the kind of environment at which it is placed. A bucket without a placement serves all. So everyone who can see a
// bucket, and create keys in it, can also see each gateway that accepts the keys. Second, a name that ends in a kind of
// environment is reserved for the project whose name precedes the kind. So callers without access to a project cannot
// use the names of its default buckets. The reasons are in docs/decisions/0029-a-bucket-serves-where-it-is-placed.md.

// serves reports whether the gateways of a project accept the bucket's keys in environments of a kind.
func (b bucketRecord) serves(project string, kind environment.Kind) bool {
	return (b.Project == "" || b.Project == project) && (b.Environment == "" || b.Environment == kind)
}

// defaultBucketOwner returns the project and the kind of environment for which a name is reserved, because their
// default bucket has this name. The project need not exist. ok is false for a name that is not reserved.
func defaultBucketOwner(name string) (project string, kind environment.Kind, ok bool) {
	for _, kind := range environment.Kinds() {
		if project, found := strings.CutSuffix(name, "-"+kind.Slug()); found && project != "" {
			return project, kind, true
		}
	}
	return "", "", false
}

// reservedName adds an error if the name is reserved for another project or kind than those in the tags, which place
// the bucket. It does not check whether the project exists, so that the response does not reveal this.
func (p *problems) reservedName(name string, tags map[string]string) {
	var b bucketRecord
	b.setPlacement(tags)
	if project, kind, reserved := defaultBucketOwner(name); reserved && (b.Project != project || b.Environment != kind) {
		p.Add("name", "names that end in -production, -preview or -working-copy belong to the project whose name stands "+
			"before that: "+
			"give the bucket the tags project and environmentType (PRODUCTION, PREVIEW or WORKING_COPY) of that project, or "+
			"choose another name")
	}
}

// BucketIdentity identifies a bucket permanently. The bucket's record is found by the name. The id distinguishes the
// bucket from earlier and later buckets with the same name.
type BucketIdentity struct{ ID, Name string }

// BucketFor returns the id and the name of a bucket for the verification of keys in a project's environments of a kind.
// It returns NotFound if the bucket does not exist, is invisible to the caller, or does not serve these environments.
func (s *Service) BucketFor(ctx context.Context, at BucketLocator, project string,
	kind environment.Kind,
) (BucketIdentity, error) {
	v, err := s.loadBucket(ctx, at)
	if err != nil {
		return BucketIdentity{}, err
	}
	if !v.bucket.serves(project, kind) {
		return BucketIdentity{}, errNoBucket
	}
	return BucketIdentity{ID: v.bucket.ID, Name: v.bucket.Name}, nil
}

// errForeignBucket returns the error for an existing bucket that has the name of a project's default bucket but does
// not serve the project's environments of this kind. Only the caller that creates the project receives this error, so
// the existence of the bucket is not revealed to others.
func errForeignBucket(name string) error {
	return fault.New(fault.Conflict,
		"The key bucket %s is there already and placed at another project or kind of environment, "+
			"and this project needs the name for a bucket of its own. Have the bucket deleted, with its consumers and keys, or "+
			"choose another name for the project.", name)
}

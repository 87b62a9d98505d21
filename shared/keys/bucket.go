package keys

import (
	"context"
	"maps"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/store"
)

// Bucket is a key bucket as its owner sees it.
type Bucket struct {
	ID, Name    string
	Description string
	Tags        map[string]string
	// Retrievable is whether the text of its keys can be shown again.
	Retrievable bool
	// Token connects to the bucket. Only Read gives it.
	Token                string
	CreatedOn, UpdatedOn time.Time
}

// NewBucket is what a bucket is made from.
type NewBucket struct {
	// Name has 5 to 128 of the characters a-z, 0-9 and -. One that ends in a kind
	// of environment belongs to a project: Tags has to place the bucket there.
	Name        string
	Description string
	// Tags has at most 20 pairs. The pairs project and environmentType place
	// the bucket for good: keys limited to projects or environments see it
	// accordingly.
	Tags map[string]string
	// Unretrievable has the texts of keys forgotten once they were shown.
	Unretrievable bool
}

// BucketPatch is a change of a bucket.
type BucketPatch struct {
	Description store.Patch[string]
	Tags        store.Patch[map[string]string]
}

// The tags that place a bucket, and the one that the three buckets of a
// project carry as well (contract 2.5).
const (
	projectTag     = "project"
	environmentTag = "environmentType"
	accountTag     = "account"
)

// bucketRecord is a bucket, or the tombstone of one. The record of a name is
// made once and never removed: a new bucket of the name takes the next
// generation, so that it never meets the consumers of the old one.
type bucketRecord struct {
	store.Rest

	ID          string            `dynamodbav:"id"`
	AccountID   string            `dynamodbav:"accountId"`
	Name        string            `dynamodbav:"name"`
	Generation  int               `dynamodbav:"generation"`
	Description string            `dynamodbav:"description,omitempty"`
	Tags        map[string]string `dynamodbav:"tags,omitempty"`
	Retrievable bool              `dynamodbav:"retrievable"`
	Token       []byte            `dynamodbav:"token,omitempty"`
	// Project and Environment are the placement, "" for none. It never changes.
	Project     string           `dynamodbav:"project,omitempty"`
	Environment environment.Kind `dynamodbav:"environment,omitempty"`
	CreatedOn   time.Time        `dynamodbav:"createdOn"`
	UpdatedOn   time.Time        `dynamodbav:"updatedOn"`
	DeletedOn   *time.Time       `dynamodbav:"deletedOn,omitempty"`
	Version     int64            `dynamodbav:"version"`
	// Seq counts what has become of Changes: entries added and entries removed.
	Seq     int64           `dynamodbav:"seq"`
	Changes overlay.Changes `dynamodbav:"changes"`
}

// bucketPointer leads from a bucket's id to its name.
type bucketPointer struct {
	store.Rest

	AccountID string `dynamodbav:"accountId"`
	Name      string `dynamodbav:"name"`
}

func (b bucketRecord) qualifiedName() qualifiedName { return qualifiedName{b.AccountID, b.Name} }

func (b bucketRecord) exists() bool { return b.ID != "" && b.DeletedOn == nil }

func (b bucketRecord) visibleTo(v auth.Viewer) bool {
	return b.exists() && v.MaySee(b.Project, string(b.Environment))
}

// update is a write to this very bucket as long as it exists.
func (b bucketRecord) update(changes ...store.Change) store.Write {
	return store.Update(bucketKey(b.AccountID, b.Name), changes...).
		If(store.Equal(store.At("id"), b.ID)).
		If(store.Lacks(store.At("deletedOn"))).
		Else(errNoBucket)
}

func (b bucketRecord) bucket() Bucket {
	return Bucket{
		ID: b.ID, Name: b.Name, Description: b.Description, Tags: b.Tags,
		Retrievable: b.Retrievable, CreatedOn: b.CreatedOn, UpdatedOn: b.UpdatedOn,
	}
}

func (b bucketRecord) resource() audit.Resource {
	return audit.Resource{Type: "key-bucket", ID: b.ID, Metadata: map[string]string{"name": b.Name}}
}

// place reads the placement from the tags, when the bucket is made. Replacing the
// tags later changes what a client filters by, not who sees the bucket.
func (b *bucketRecord) place(tags map[string]string) {
	b.Project = tags[projectTag]
	if kind, ok := environment.Parse(tags[environmentTag]); ok {
		b.Environment = kind
	}
}

var errNoBucket = fault.Missing("key bucket")

// CreateBucket makes a bucket. A name in use is a Conflict; a caller that is
// limited to projects or environments has to place the bucket within them.
func (s *Service) CreateBucket(ctx context.Context, owner auth.Owner, in NewBucket) (Bucket, error) {
	var wrong problems
	wrong.bucketName(in.Name)
	wrong.description("description", in.Description)
	wrong.tags(in.Tags, maxBucketTags)
	wrong.placedName(in.Name, in.Tags)
	if err := wrong.Err(); err != nil {
		return Bucket{}, err
	}
	var made bucketRecord
	err := s.table.Again(ctx, func(ctx context.Context) error {
		var old bucketRecord
		tally := s.counts.Of(owner.AccountID, limits.KeyBuckets)
		if err := s.table.Load(ctx, store.Want(bucketKey(owner.AccountID, in.Name), &old), tally.Wanted()); err != nil {
			return err
		}
		var err error
		if made, err = s.newBucket(ctx, owner.AccountID, in, old.Generation+1); err != nil {
			return err
		}
		if !owner.Viewer.MaySee(made.Project, string(made.Environment)) {
			return fault.New(fault.Forbidden, "This account key is limited to some projects or environments: give the bucket the tags project and environmentType (PRODUCTION, PREVIEW or WORKING_COPY) of one of them.")
		}
		if old.exists() {
			return errBucketNameInUse
		}
		room, err := s.takeBuckets(ctx, tally, owner.AccountID, 1)
		if err != nil {
			return err
		}
		writes := append(made.create(old, store.ErrStale), audit.Record(ctx, made.resource()), room)
		return s.table.Commit(ctx, writes...)
	})
	if err != nil {
		return Bucket{}, err
	}
	s.directory.setGeneration(made.qualifiedName(), made.Generation)
	return made.bucket(), nil
}

var errBucketNameInUse = fault.New(fault.Conflict, "A key bucket of this name exists in the account. Choose another name.")

// newBucket makes the record of a bucket and its token.
func (s *Service) newBucket(ctx context.Context, accountID string, in NewBucket, generation int) (bucketRecord, error) {
	now := s.now()
	b := bucketRecord{
		ID: s.parts.IDs.New("bckt", 32), AccountID: accountID, Name: in.Name, Generation: generation,
		Description: in.Description, Tags: maps.Clone(in.Tags), Retrievable: !in.Unretrievable,
		CreatedOn: now, UpdatedOn: now, Version: 1, Changes: overlay.Changes{},
	}
	b.place(in.Tags)
	token := credential.New(credential.BucketToken, s.parts.IDs)
	var err error
	b.Token, err = s.seal.Seal(ctx, []byte(token), tokenContext(b.ID))
	return b, err
}

func tokenContext(bucketID string) string { return "key-bucket-token/" + bucketID }

// create are the writes of a new bucket where old, its name's record, is absent
// or a tombstone; raced is answered when that has changed. A tombstone's id is
// condition enough: no bucket comes back, and each one has an id of its own.
func (b bucketRecord) create(old bucketRecord, raced error) []store.Write {
	key := bucketKey(b.AccountID, b.Name)
	record := store.Create(key, b)
	if old.ID != "" {
		record = store.Put(key, b).If(store.Equal(store.At("id"), old.ID))
	}
	return []store.Write{
		record.Else(raced),
		store.Create(bucketIDKey(b.ID), bucketPointer{AccountID: b.AccountID, Name: b.Name}),
	}
}

// ReadBucket gives a bucket with its token.
func (s *Service) ReadBucket(ctx context.Context, at BucketAt) (Bucket, error) {
	v, err := s.loadBucket(ctx, at)
	if err != nil {
		return Bucket{}, err
	}
	out := v.bucket.bucket()
	token, err := s.seal.Open(ctx, v.bucket.Token, tokenContext(out.ID))
	if err != nil {
		return Bucket{}, err
	}
	out.Token = string(token)
	return out, nil
}

// ListBuckets gives a part of the account's buckets that the caller sees, in
// the order of names, and how many there are in all.
func (s *Service) ListBuckets(ctx context.Context, owner auth.Owner, page store.Page) ([]Bucket, int, error) {
	records, err := store.Collect[bucketRecord](ctx, s.table, store.Query{PK: bucketPartition(owner.AccountID)})
	if err != nil {
		return nil, 0, err
	}
	var out []Bucket
	total := 0
	for _, b := range records {
		if !b.visibleTo(owner.Viewer) {
			continue
		}
		if total++; total > page.Offset && len(out) < page.Limit {
			out = append(out, b.bucket())
		}
	}
	return out, total, nil
}

// UpdateBucket changes the description and the tags. The placement stays.
func (s *Service) UpdateBucket(ctx context.Context, at BucketAt, in BucketPatch) (Bucket, error) {
	var wrong problems
	wrong.description("description", in.Description.Over(""))
	wrong.tags(in.Tags.Over(nil), maxBucketTags)
	if err := wrong.Err(); err != nil {
		return Bucket{}, err
	}
	v, err := s.loadBucket(ctx, at)
	if err != nil {
		return Bucket{}, err
	}
	b := v.bucket
	b.UpdatedOn = s.now()
	// Each field is replaced by itself, so that two updates of different
	// fields both last without a condition on the version.
	changes := []store.Change{store.Set(store.At("updatedOn"), b.UpdatedOn), store.Add(store.At("version"), 1)}
	if in.Description.Set {
		b.Description = in.Description.Over("")
		changes = append(changes, setOrRemove("description", b.Description, b.Description == ""))
	}
	if in.Tags.Set {
		b.Tags = in.Tags.Over(nil)
		changes = append(changes, setOrRemove("tags", b.Tags, len(b.Tags) == 0))
	}
	if err := s.table.Commit(ctx, b.update(changes...), audit.Record(ctx, b.resource())); err != nil {
		return Bucket{}, err
	}
	return b.bucket(), nil
}

func setOrRemove(attribute string, value any, empty bool) store.Change {
	if empty {
		return store.Remove(store.At(attribute))
	}
	return store.Set(store.At(attribute), value)
}

// DeleteBucket deletes a bucket with all its consumers, keys and managers. They
// are gone for every reader when it returns; a durable operation empties the
// table afterwards.
func (s *Service) DeleteBucket(ctx context.Context, at BucketAt) error {
	v, err := s.loadBucket(ctx, at)
	if err != nil {
		return err
	}
	b := v.bucket
	if err := s.removes(ctx, b); err != nil {
		return err
	}
	writes := append(s.remove(b, s.parts.IDs.Ordered("kop", 24)), audit.Record(ctx, b.resource()))
	return s.table.Commit(ctx, writes...)
}

// remove are the writes that delete a bucket, and begin the operation that empties
// the table of what was in it.
func (s *Service) remove(b bucketRecord, operationID string) []store.Write {
	now := s.now()
	return []store.Write{
		b.update(
			store.Set(store.At("deletedOn"), now),
			store.Set(store.At("updatedOn"), now),
			store.Set(store.At("changes"), overlay.Changes{}),
			store.Remove(store.At("description")),
			store.Remove(store.At("tags")),
			store.Remove(store.At("token")),
			store.Add(store.At("version"), 1),
		),
		store.Delete(bucketIDKey(b.ID)),
		s.begin(emptyBucket, operationID, b.ID, cascade{AccountID: b.AccountID, Bucket: b.Name, Generation: b.Generation}),
	}
}

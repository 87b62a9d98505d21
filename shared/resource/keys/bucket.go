package keys

import (
	"context"
	"maps"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// Bucket is the public form of a key bucket.
type Bucket struct {
	ID, Name    string
	Description string
	Tags        map[string]string
	// Retrievable reports whether the texts of the bucket's keys can be shown again.
	Retrievable bool
	// Token is the bucket's secret token. Only ReadBucket sets it.
	Token                string
	CreatedOn, UpdatedOn time.Time
}

// NewBucket is the input of CreateBucket.
type NewBucket struct {
	// Name has 5 to 128 of the characters a-z, 0-9 and -. A name that ends in -production, -preview or -working-copy is
	// reserved for the project whose name precedes this suffix: Tags must place the bucket at this project and at the
	// kind of environment in the suffix.
	Name        string
	Description string
	// Tags has at most 20 pairs. The tags project and environmentType place the bucket permanently. Account keys that are
	// limited to some projects or environments can see the bucket only if it is placed at one of them.
	Tags map[string]string
	// Unretrievable makes the bucket not store the texts of its keys: each text is only shown when its key is created.
	Unretrievable bool
}

// BucketPatch is a change of a bucket.
type BucketPatch struct {
	Description store.Patch[string]
	Tags        store.Patch[map[string]string]
}

// projectTag and environmentTag place a bucket. The three default buckets of a project also have accountTag (contract
// 2.5).
const (
	projectTag     = "project"
	environmentTag = "environmentType"
	accountTag     = "account"
)

const (
	// bucketPrefix is the key prefix of the buckets (bucketRecord). Each account has a partition with its buckets. They
	// are read by name, and listed sorted by name. The record of a deleted bucket stays as a tombstone, because it
	// stores the generation.
	bucketPrefix store.KeyPrefix = "buckets"
	// bucketIDPrefix maps a bucket's id to its name (bucketPointer).
	bucketIDPrefix store.KeyPrefix = "bucket-id"
)

// bucketRecord is the record of a bucket or, after its deletion, its tombstone. It is never removed from the table. A
// later bucket with the same name replaces the tombstone and gets the next generation, so that it does not have the
// deleted bucket's consumers.
type bucketRecord struct {
	store.UnknownAttributes

	ID          string            `dynamodbav:"id"`
	AccountID   string            `dynamodbav:"accountId"`
	Name        string            `dynamodbav:"name"`
	Generation  int               `dynamodbav:"generation"`
	Description string            `dynamodbav:"description,omitempty"`
	Tags        map[string]string `dynamodbav:"tags,omitempty"`
	Retrievable bool              `dynamodbav:"retrievable"`
	Token       []byte            `dynamodbav:"token,omitempty"`
	// Project and Environment are the bucket's placement, "" for none. The placement never changes.
	Project     string           `dynamodbav:"project,omitempty"`
	Environment environment.Kind `dynamodbav:"environment,omitempty"`
	CreatedOn   time.Time        `dynamodbav:"createdOn"`
	UpdatedOn   time.Time        `dynamodbav:"updatedOn"`
	DeletedOn   *time.Time       `dynamodbav:"deletedOn,omitempty"`
	Version     int64            `dynamodbav:"version"`
	// Seq is incremented by each commit that adds entries to Changes or removes entries from it, except the deletion of
	// the bucket.
	Seq     int64           `dynamodbav:"seq"`
	Changes overlay.Changes `dynamodbav:"changes"`
}

// bucketPointer is the record of a bucket's id. It contains the bucket's name and account.
type bucketPointer struct {
	store.UnknownAttributes

	AccountID string `dynamodbav:"accountId"`
	Name      string `dynamodbav:"name"`
}

func bucketKey(accountID, bucket string) store.Key {
	return store.KeyIn(bucketPartition(accountID), "bucket", bucket)
}

func bucketPartition(accountID string) string { return bucketPrefix.Partition(accountID) }

func bucketIDKey(bucketID string) store.Key { return bucketIDPrefix.Key(bucketID) }

func (b bucketRecord) qualifiedName() qualifiedName { return qualifiedName{b.AccountID, b.Name} }

func (b bucketRecord) exists() bool { return b.ID != "" && b.DeletedOn == nil }

func (b bucketRecord) visibleTo(v auth.Viewer) bool {
	return b.exists() && v.CanSee(b.Project, string(b.Environment))
}

// updateWrite returns a write that makes changes in the bucket's record. It fails with errNoBucket if the bucket was
// deleted.
func (b bucketRecord) updateWrite(changes ...store.Change) store.Write {
	return store.Update(bucketKey(b.AccountID, b.Name), changes...).
		If(store.Equal(store.At("id"), b.ID)).
		If(store.Lacks(store.At("deletedOn"))).
		Else(errNoBucket)
}

func (b bucketRecord) toBucket() Bucket {
	return Bucket{
		ID: b.ID, Name: b.Name, Description: b.Description, Tags: b.Tags,
		Retrievable: b.Retrievable, CreatedOn: b.CreatedOn, UpdatedOn: b.UpdatedOn,
	}
}

func (b bucketRecord) resource() audit.Resource {
	return audit.Resource{Type: "key-bucket", ID: b.ID, Metadata: map[string]string{"name": b.Name}}
}

// setPlacement sets the placement of a new bucket from its tags. Later changes of the tags do not change the placement,
// so the same callers can see the bucket.
func (b *bucketRecord) setPlacement(tags map[string]string) {
	b.Project = tags[projectTag]
	if kind, ok := environment.Parse(tags[environmentTag]); ok {
		b.Environment = kind
	}
}

var errNoBucket = fault.Missing("key bucket")

// CreateBucket creates a bucket. It returns Conflict if the name is in use, and Forbidden if the account would exceed
// limits.KeyBuckets. If the caller is limited to some projects or kinds of environment, the bucket's tags must place it
// at one of them.
func (s *Service) CreateBucket(ctx context.Context, owner auth.Owner, in NewBucket) (Bucket, error) {
	var invalid problems
	invalid.bucketName(in.Name)
	invalid.description("description", in.Description)
	invalid.tags(in.Tags, maxBucketTags)
	invalid.reservedName(in.Name, in.Tags)
	if err := invalid.Err(); err != nil {
		return Bucket{}, err
	}
	var created bucketRecord
	err := s.table.RunInTx(ctx, func(ctx context.Context) error {
		var old bucketRecord
		counter := s.counts.NewCounter(owner.AccountID, limits.KeyBuckets)
		if err := s.table.Load(ctx, store.Get(bucketKey(owner.AccountID, in.Name), &old), counter.ReadRequest()); err != nil {
			return err
		}
		var err error
		if created, err = s.newBucket(ctx, owner.AccountID, in, old.Generation+1); err != nil {
			return err
		}
		if !owner.Viewer.CanSee(created.Project, string(created.Environment)) {
			return fault.New(fault.Forbidden, "This account key is limited to some projects or environments: give the bucket "+
				"the tags project and environmentType (PRODUCTION, PREVIEW or WORKING_COPY) of one of them.")
		}
		if old.exists() {
			return errBucketNameInUse
		}
		reservation, err := s.reserveBuckets(ctx, counter, owner.AccountID, 1)
		if err != nil {
			return err
		}
		writes := append(created.createWrites(old, store.ErrStale), audit.Record(ctx, created.resource()), reservation)
		return s.table.Commit(ctx, writes...)
	})
	if err != nil {
		return Bucket{}, err
	}
	s.directory.setGeneration(created.qualifiedName(), created.Generation)
	return created.toBucket(), nil
}

var errBucketNameInUse = fault.New(fault.Conflict,
	"A key bucket of this name exists in the account. Choose another name.")

// newBucket returns the record of a new bucket with a new, sealed token.
func (s *Service) newBucket(ctx context.Context, accountID string, in NewBucket, generation int) (bucketRecord, error) {
	now := s.now()
	b := bucketRecord{
		ID: s.parts.IDs.New("bckt", 32), AccountID: accountID, Name: in.Name, Generation: generation,
		Description: in.Description, Tags: maps.Clone(in.Tags), Retrievable: !in.Unretrievable,
		CreatedOn: now, UpdatedOn: now, Version: 1, Changes: overlay.Changes{},
	}
	b.setPlacement(in.Tags)
	token := credential.New(credential.BucketToken, s.parts.IDs)
	var err error
	b.Token, err = s.sealer.Seal(ctx, []byte(token), tokenContext(b.ID))
	return b, err
}

func tokenContext(bucketID string) string { return "key-bucket-token/" + bucketID }

// createWrites returns the writes that create a bucket. old is the record that was read under the bucket's name: the
// zero record, or the tombstone of an earlier bucket. The commit fails with conflict if this record has changed since.
// It is enough to compare the tombstone's id: a deleted bucket is never restored, and each bucket has its own id.
func (b bucketRecord) createWrites(old bucketRecord, conflict error) []store.Write {
	key := bucketKey(b.AccountID, b.Name)
	record := store.Create(key, b)
	if old.ID != "" {
		record = store.Put(key, b).If(store.Equal(store.At("id"), old.ID))
	}
	return []store.Write{
		record.Else(conflict),
		store.Create(bucketIDKey(b.ID), bucketPointer{AccountID: b.AccountID, Name: b.Name}),
	}
}

// ReadBucket returns a bucket with its token.
func (s *Service) ReadBucket(ctx context.Context, at BucketLocator) (Bucket, error) {
	v, err := s.loadBucket(ctx, at)
	if err != nil {
		return Bucket{}, err
	}
	out := v.bucket.toBucket()
	token, err := s.sealer.Open(ctx, v.bucket.Token, tokenContext(out.ID))
	if err != nil {
		return Bucket{}, err
	}
	out.Token = string(token)
	return out, nil
}

// ListBuckets returns one page of the account's buckets that the caller can see, sorted by name, and their total
// number.
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
			out = append(out, b.toBucket())
		}
	}
	return out, total, nil
}

// UpdateBucket changes the description and the tags of a bucket. The placement stays.
func (s *Service) UpdateBucket(ctx context.Context, at BucketLocator, in BucketPatch) (Bucket, error) {
	var invalid problems
	invalid.description("description", in.Description.ApplyTo(""))
	invalid.tags(in.Tags.ApplyTo(nil), maxBucketTags)
	if err := invalid.Err(); err != nil {
		return Bucket{}, err
	}
	v, err := s.loadBucket(ctx, at)
	if err != nil {
		return Bucket{}, err
	}
	b := v.bucket
	b.UpdatedOn = s.now()
	// Only the patched fields are written. So concurrent updates of different fields need no condition on the version.
	changes := []store.Change{store.Set(store.At("updatedOn"), b.UpdatedOn), store.Add(store.At("version"), 1)}
	if in.Description.Set {
		b.Description = in.Description.ApplyTo("")
		changes = append(changes, setOrRemove("description", b.Description, b.Description == ""))
	}
	if in.Tags.Set {
		b.Tags = in.Tags.ApplyTo(nil)
		changes = append(changes, setOrRemove("tags", b.Tags, len(b.Tags) == 0))
	}
	if err := s.table.Commit(ctx, b.updateWrite(changes...), audit.Record(ctx, b.resource())); err != nil {
		return Bucket{}, err
	}
	return b.toBucket(), nil
}

func setOrRemove(attribute string, value any, empty bool) store.Change {
	if empty {
		return store.Remove(store.At(attribute))
	}
	return store.Set(store.At(attribute), value)
}

// DeleteBucket deletes a bucket with all its consumers, keys and managers. When DeleteBucket returns, no reader sees
// them any longer. A durable operation then removes their records from the table.
func (s *Service) DeleteBucket(ctx context.Context, at BucketLocator) error {
	v, err := s.loadBucket(ctx, at)
	if err != nil {
		return err
	}
	b := v.bucket
	if err := s.reportRemovals(ctx, b); err != nil {
		return err
	}
	writes := append(s.deleteBucketWrites(b, s.parts.IDs.Ordered("kop", 24)), audit.Record(ctx, b.resource()))
	return s.table.Commit(ctx, writes...)
}

// deleteBucketWrites returns the writes that delete a bucket and start the operation that removes its contents from the
// table.
func (s *Service) deleteBucketWrites(b bucketRecord, operationID string) []store.Write {
	now := s.now()
	return []store.Write{
		b.updateWrite(
			store.Set(store.At("deletedOn"), now),
			store.Set(store.At("updatedOn"), now),
			store.Set(store.At("changes"), overlay.Changes{}),
			store.Remove(store.At("description")),
			store.Remove(store.At("tags")),
			store.Remove(store.At("token")),
			store.Add(store.At("version"), 1),
		),
		store.Delete(bucketIDKey(b.ID)),
		s.beginOperation(deleteBucket, operationID, b.ID,
			cascade{AccountID: b.AccountID, Bucket: b.Name, Generation: b.Generation}),
	}
}

package metering

import (
	"hash/fnv"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

const (
	// bucketSpace has the buckets of an account by their ids, which sort by creation. They are a
	// partition, which a list reads whole.
	bucketSpace store.Space = "metering-bucket"
	// bucketCountSpace has the number of an account's buckets, which has a limit.
	bucketCountSpace store.Space = "metering-bucket-count"
	// planSpace has the plans of a bucket by their ids, which sort by creation.
	planSpace store.Space = "metering-plan"
	// planExternalSpace leads from the id that a plan has elsewhere to its own, and keeps it
	// unique in the bucket.
	planExternalSpace store.Space = "metering-plan-external"
	// subscriptionSpace has the subscriptions of a bucket by their ids, which sort by
	// creation: a list reads a page, the newest first. They are in the due index.
	subscriptionSpace store.Space = "metering-subscription"
	// subscriptionExternalSpace keeps the id that a subscription has elsewhere unique in the
	// bucket.
	subscriptionExternalSpace store.Space = "metering-subscription-external"
	// customerSpace has the ids of a customer's subscriptions: a gateway reads the newest.
	customerSpace store.Space = "metering-customer"
	// historySpace has the periods of a subscription that have passed, by their beginnings.
	historySpace store.Space = "metering-history"
	// dueSpace is that of the due index's partitions with subscriptions, by the time from which
	// Close has something to do.
	dueSpace store.Space = "metering-due"
)

func bucketPartition(accountID string) string { return bucketSpace.Partition(accountID) }

func bucketKey(accountID, bucketID string) store.Key {
	return store.In(bucketPartition(accountID), bucketID)
}

func bucketCountKey(accountID string) store.Key { return bucketCountSpace.Key(accountID) }

func planPartition(bucketID string) string { return planSpace.Partition(bucketID) }

func planKey(bucketID, planID string) store.Key { return store.In(planPartition(bucketID), planID) }

func planExternalKey(bucketID, externalID string) store.Key {
	return planExternalSpace.Key(bucketID, externalID)
}

func subscriptionPartition(bucketID string) string { return subscriptionSpace.Partition(bucketID) }

func subscriptionKey(bucketID, subscriptionID string) store.Key {
	return store.In(subscriptionPartition(bucketID), subscriptionID)
}

func subscriptionExternalKey(bucketID, externalID string) store.Key {
	return subscriptionExternalSpace.Key(bucketID, externalID)
}

func customerPartition(bucketID, customerKey string) string {
	return customerSpace.Partition(bucketID, customerKey)
}

func customerRowKey(bucketID, customerKey, subscriptionID string) store.Key {
	return store.In(customerPartition(bucketID, customerKey), subscriptionID)
}

func historyPartition(subscriptionID string) string { return historySpace.Partition(subscriptionID) }

// historyKey sorts as the periods do: what is stored begins in a year of four digits.
func historyKey(subscriptionID string, from time.Time) store.Key {
	return store.In(historyPartition(subscriptionID), from.Format(time.DateOnly))
}

// pointer is a row that leads to a record by its id.
type pointer struct {
	store.Rest

	ID string `dynamodbav:"id"`
}

// DueShards is how many partitions of the due index subscriptions are spread over: most fall due at one
// midnight, and a partition takes 1,000 writes a second.
const DueShards = 16

func duePartition(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return dueSpace.Partition(strconv.Itoa(int(h.Sum32() % DueShards)))
}

// DueQuery names the subscriptions of a shard, from 0 to DueShards-1, for which Close has something to do
// at now, those first that have waited longest. It is for Table.Keys: the index has keys alone.
func DueQuery(shard int, now time.Time) store.Query {
	return store.Query{
		Index: store.DueIndex, PK: dueSpace.Partition(strconv.Itoa(shard)),
		// Beyond every "#" and id of this millisecond.
		UpTo: store.Instant(now).Format(dueFormat) + "$",
	}
}

// dueFormat sorts as the times do: it is as long for each of them.
const dueFormat = "2006-01-02T15:04:05.000Z"

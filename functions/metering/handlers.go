package metering

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{metering.Open(p)}
	return []api.Route{
		listBuckets.HandledBy(h.listBuckets), createBucket.HandledBy(h.createBucket), readBucket.HandledBy(h.readBucket),
		removeBucket.HandledBy(h.removeBucket),
		listPlans.HandledBy(h.listPlans), createPlan.HandledBy(h.createPlan), readPlan.HandledBy(h.readPlan),
		updatePlan.HandledBy(h.updatePlan), removePlan.HandledBy(h.removePlan),
		listSubscriptions.HandledBy(h.listSubscriptions), createSubscription.HandledBy(h.createSubscription),
		readSubscription.HandledBy(h.readSubscription),
		updateSubscription.HandledBy(h.updateSubscription), removeSubscription.HandledBy(h.removeSubscription),
		readQuotas.HandledBy(h.readQuotas),
	}
}

type handlers struct{ service *metering.Service }

func (p BucketPath) locator(ctx context.Context) metering.BucketLocator {
	return metering.BucketLocator{Owner: auth.OwnerFrom(ctx), Bucket: p.BucketID}
}

func (h handlers) listBuckets(ctx context.Context, in *listBucketsIn) (*bucketsOut, error) {
	return api.RespondSlice(in.Page, viewBucket)(h.service.ListBuckets(ctx, auth.OwnerFrom(ctx)))
}

func (h handlers) createBucket(ctx context.Context, _ *createBucketIn) (*bucketOut, error) {
	return api.Respond(viewBucket)(h.service.CreateBucket(ctx, auth.OwnerFrom(ctx)))
}

func (h handlers) readBucket(ctx context.Context, in *bucketIn) (*bucketOut, error) {
	return api.Respond(viewBucket)(h.service.ReadBucket(ctx, in.locator(ctx)))
}

func (h handlers) removeBucket(ctx context.Context, in *bucketIn) (*api.NoContent, error) {
	return nil, h.service.DeleteBucket(ctx, in.locator(ctx))
}

func (h handlers) listPlans(ctx context.Context, in *bucketListIn) (*plansOut, error) {
	return api.RespondSlice(in.Page, viewPlan)(h.service.ListPlans(ctx, in.locator(ctx)))
}

func (h handlers) createPlan(ctx context.Context, in *createPlanIn) (*planOut, error) {
	return api.Respond(viewPlan)(h.service.CreatePlan(ctx, in.locator(ctx), in.terms()))
}

func (h handlers) readPlan(ctx context.Context, in *planIn) (*planOut, error) {
	return api.Respond(viewPlan)(h.service.ReadPlan(ctx, in.locator(ctx), in.PlanID))
}

func (h handlers) updatePlan(ctx context.Context, in *updatePlanIn) (*planOut, error) {
	return api.Respond(viewPlan)(h.service.UpdatePlan(ctx, in.locator(ctx), in.PlanID, in.patch()))
}

func (h handlers) removePlan(ctx context.Context, in *planIn) (*api.NoContent, error) {
	return nil, h.service.DeletePlan(ctx, in.locator(ctx), in.PlanID)
}

func (h handlers) listSubscriptions(ctx context.Context, in *bucketListIn) (*subscriptionsOut, error) {
	return api.RespondPage(in.Page, viewSubscription)(h.service.ListSubscriptions(ctx, in.locator(ctx), in.StorePage()))
}

func (h handlers) createSubscription(ctx context.Context, in *createSubscriptionIn) (*subscriptionOut, error) {
	return api.Respond(viewSubscription)(h.service.CreateSubscription(ctx, in.locator(ctx), in.subscription()))
}

func (h handlers) readSubscription(ctx context.Context, in *subscriptionIn) (*subscriptionOut, error) {
	return api.Respond(viewSubscription)(h.service.ReadSubscription(ctx, in.locator(ctx), in.SubscriptionID))
}

func (h handlers) updateSubscription(ctx context.Context, in *updateSubscriptionIn) (*subscriptionOut, error) {
	return api.Respond(viewSubscription)(h.service.UpdateSubscription(ctx, in.locator(ctx), in.SubscriptionID, in.patch()))
}

func (h handlers) removeSubscription(ctx context.Context, in *subscriptionIn) (*api.NoContent, error) {
	return nil, h.service.DeleteSubscription(ctx, in.locator(ctx), in.SubscriptionID)
}

func (h handlers) readQuotas(ctx context.Context, in *quotasIn) (*quotasOut, error) {
	var instant *time.Time
	if in.Period != "" {
		parsed, err := time.Parse(time.RFC3339, in.Period)
		if err != nil {
			return nil, fault.InvalidField("period", "has to be an instant such as 2026-01-31T00:00:00Z")
		}
		instant = &parsed
	}
	q, err := h.service.Quotas(ctx, in.locator(ctx), in.SubscriptionID, instant)
	if err != nil {
		return nil, err
	}
	return &quotasOut{Period: q.Period.String(), Body: q.Remaining}, nil
}

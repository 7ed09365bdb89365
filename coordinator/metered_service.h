// Counts what clients get: a service around a service, with Prometheus metrics of both requests and
// the cluster.
//
// Owner: the coordinator. Any thread. What is counted per request is counted here; figures of
// workers and stages are taken from the cluster's status when somebody scrapes.
#pragma once

#include <memory>
#include <string>

#include "coordinator/llm_service.h"

namespace baton::coordinator {

class MeteredService : public LlmService {
 public:
  // `inner` must outlive it.
  static std::unique_ptr<MeteredService> Create(LlmService* inner);
  // All metrics in Prometheus' text format.
  virtual std::string MetricsText() const = 0;
};

}  // namespace baton::coordinator

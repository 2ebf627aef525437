internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Automatic retry of a failed rebalance.
extension AdminRoutes {
    private static let read = RouteAccess.permission("cluster.tasks!read")

    static let retries: [Route] = [
        Route(.get, "/pools/default/pendingRetryRebalance", access: read, needsCluster: true) {
            call in
            .json(pending(call))
        },
        Route(
            .post,
            "/controller/cancelRebalanceRetry/*",
            access: .settingsWrite,
            needsCluster: true
        ) { call in
            let isGone = await call.service.membership.cancelRetry(call.capture(0))
            return isGone
                ? .done
                : .text("No retry of a rebalance with this id is pending.\r\n", status: 404)
        }.accepting(),
        Route(.get, "/settings/retryRebalance", access: read) { call in
            .json(shown(call.state.settings.retry))
        },
        Route.setting("/settings/retryRebalance", .settingsWrite, handler: setRetry),
    ]

    private static func shown(_ settings: RetrySettings) -> JSONText {
        [
            "enabled": .bool(settings.isEnabled),
            "afterTimePeriod": .number(settings.afterSeconds),
            "maxAttempts": .number(settings.attemptsMax),
        ]
    }

    private static func pending(_ call: Call) -> JSONText {
        guard call.state.rebalance == nil, let retry = call.state.retry else {
            return ["retry_rebalance": "not_pending"]
        }
        let now = call.service.cluster.wallMilliseconds
        let seconds = (retry.dueMilliseconds - min(now, retry.dueMilliseconds) + 999) / 1_000
        let left = call.state.settings.retry.attemptsMax
        func names(_ numbers: [NodeNumber]) -> JSONText {
            .array(numbers.compactMap { call.state.node(number: $0)?.otpNode }.map(JSONText.string))
        }
        return [
            "retry_rebalance": "pending",
            "rebalance_id": .string(retry.id),
            "type": "rebalance",
            "attempts_remaining": .number(1 + left - min(left, retry.attempt)),
            "retry_after_secs": .number(seconds),
            "known_nodes": names(retry.kept + retry.ejected),
            "eject_nodes": names(retry.ejected),
        ]
    }

    private static func setRetry(_ call: Call) async throws(AdministrationError) -> Reply {
        var form = SettingsForm(call.request.form)
        var settings = call.state.settings
        form.refuseUnknownFields(except: ["enabled", "afterTimePeriod", "maxAttempts"])
        form.require("enabled")
        if let isEnabled = form.flag("enabled") { settings.retry.isEnabled = isEnabled }
        if let seconds = form.number("afterTimePeriod", RetrySettings.afterSecondsRange) {
            settings.retry.afterSeconds = seconds
        }
        if let attempts = form.number("maxAttempts", RetrySettings.attemptsRange) {
            settings.retry.attemptsMax = attempts
        }
        let done = Reply.json(shown(settings.retry))
        return try await form.reply(to: call, setting: settings, done: done)
    }
}

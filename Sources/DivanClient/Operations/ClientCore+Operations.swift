internal import Bytes
internal import Vocabulary
internal import Wire

/// The stages of an operation: routed, sent, answered, retried, over.
extension ClientCore {
    /// Starts an operation; refuses it if the client is closed or its limits are reached.
    func submit(_ request: Request, timeout: UInt64, _ complete: @escaping Operation.Completion) {
        if case .closed = life {
            return complete(.failure(ClientError(.closed, "the client is closed")))
        }
        guard operations.count < settings.operationsMax,
            bytesPending + request.byteCount <= settings.bytesMax
        else {
            let text =
                "\(operations.count) operations with \(bytesPending) bytes are pending already"
            return complete(.failure(ClientError(.overloaded, text)))
        }
        let time = now
        let operation = Operation(
            number: nextNumber(),
            request,
            started: time,
            deadline: time + timeout,
            complete: complete
        )
        operations[operation.number] = operation
        bytesPending += request.byteCount
        schedule(.deadline(operation: operation.number), after: timeout)
        dispatch(operation)
    }

    /// Ends an operation; the only place that calls `complete`.
    func finish(_ operation: Operation, _ result: Result<Operation.Reply, ClientError>) {
        operation.stage = .over
        operations[operation.number] = nil
        bytesPending -= operation.request.byteCount
        retryNext(after: operation)
        operation.complete(result)
    }

    /// Retries the oldest operation that waits for a durable write of the same document.
    private func retryNext(after operation: Operation) {
        guard !lines.isEmpty else { return }
        if case .closed = life { return lines.removeAll() }
        let key = operation.request.key
        lines.leave(operation.number, key)
        while let number = lines.next(key) {
            guard let next = operations[number], case .backingOff(_, forMap: false) = next.stage
            else { continue }
            // Dispatch from the agenda, so that this function does not recurse.
            return backOff(next, nanoseconds: 0, forMap: false)
        }
    }

    // MARK: Sending

    /// Routes an operation by the current map and sends it, or queues it until its node is ready.
    func dispatch(_ operation: Operation) {
        guard let map = cache.current else {
            operation.stage = .unrouted
            return
        }
        if operation.mapChanges != cache.changes {
            operation.mapChanges = cache.changes
            operation.refusedBy = nil
            operation.backOffs = 0
        }
        let router = KeyRouter(map)
        let request = operation.request
        let vBucket = request.key.withUnsafeBytes { router.vBucket(of: ByteView($0)) }
        guard
            let route = router.route(vBucket, request.copy, refusedBy: operation.refusedBy)
        else {
            operation.stage = .unrouted
            operation.trouble = "map \(map.revision) names no node for this copy of \(vBucket)"
            return requestMap(isUrgent: true)
        }
        operation.route = route
        let node = node(at: route.node)
        operation.stage = .waiting(node)
        node.waiting.append(operation)
        if node.isReady { sendWaiting(to: node) } else { connectIfAllowed(node) }
    }

    /// Sends the operations that wait for a node, as many as its pipeline has room for.
    func sendWaiting(to node: ClusterNode) {
        guard node.isReady, !node.waiting.isEmpty else { return }
        var count = 0
        for operation in node.waiting {
            guard node.flights.count < settings.pipelineMax else { break }
            count += 1
            if case .waiting(let place) = operation.stage, place === node {
                send(operation, to: node)
            }
        }
        node.waiting.removeFirst(count)
    }

    private func send(_ operation: Operation, to node: ClusterNode) {
        let (request, needs) = (operation.request, operation.request.needs)
        guard let route = operation.route, let connection = node.connection else {
            preconditionFailure("only a routed operation is sent, and only to a connected node")
        }
        guard needs.bits & node.features.bits == needs.bits else {
            operation.trouble = "\(node.address) lacks a feature that the request needs"
            return finish(operation, .failure(operation.error(.unsupported)))
        }
        let ticket = nextNumber()
        operation.attempts += 1
        operation.stage = .inFlight(node, ticket: ticket)
        addFlight(.operation(operation), ticket, on: node)
        connection.send(.init(ticket: ticket, vBucket: route.vBucket, request: request))
    }

    /// Records that a request is being sent.
    func addFlight(_ flight: ClusterNode.Flight, _ ticket: UInt64, on node: ClusterNode) {
        if node.unanswered == 0 { node.lastReceived = now }
        node.unanswered += 1
        node.flights[ticket] = flight
    }

    // MARK: Answers

    func handle(_ answer: Answer, for operation: Operation, from node: ClusterNode) {
        operation.status = answer.status
        operation.trouble = ClientCore.context(of: answer)
        switch RetryPolicy.decide(
            .answered(answer.status),
            isWrite: operation.request.isWrite,
            waitsForLock: operation.request.waitsForLock
        ) {
        case .done:
            guard let route = operation.route else {
                preconditionFailure("an answered operation has a route")
            }
            let reply = Operation.Reply(answer: answer, vBucket: route.vBucket, node: node.address)
            finish(operation, .success(reply))
        case .fail(let code): finish(operation, .failure(operation.error(code)))
        case .again:
            if RetryPolicy.waitsForAnother(answer.status) {
                lines.enter(operation.number, operation.request.key)
            }
            backOff(operation, forMap: false)
        case .reselect:
            backOff(operation, forMap: false)
            select(node)
        case .reconnect:
            backOff(operation, forMap: false)
            node.connection?.close()
        case .reroute: reroute(operation, refusedBy: node, answer)
        }
    }

    /// The error context that an answer carries beside its status; nil if there is none.
    private static func context(of answer: Answer) -> String? {
        guard answer.status != Status.success.rawValue, answer.datatype.contains(.json),
            !answer.value.isEmpty, answer.value.count < 1_024
        else { return nil }
        return "the server's error context: \(String(decoding: answer.value, as: UTF8.self))"
    }

    private func reroute(_ operation: Operation, refusedBy node: ClusterNode, _ answer: Answer) {
        operation.trouble = "\(node.address) answered that it does not have the vBucket"
        let isFirst = operation.refusedBy == nil
        operation.refusedBy = node.address
        backOff(operation, forMap: true)
        if answer.value.isEmpty {
            requestMap(of: node)
        } else {
            applyConfiguration(answer.value, from: node)
            // The node's map is not newer than the client's; another node may have a newer one.
            if operation.mapChanges == cache.changes { requestMap(isUrgent: true) }
        }
        // Applying a newer map has dispatched all operations that wait for one.
        guard case .backingOff = operation.stage, let map = cache.current,
            let route = operation.route
        else { return }
        // Dispatch also by the old map: the vBucket may have moved to its target node already.
        let copy = operation.request.copy.column
        let isMoving = isFirst && map.forwardNode(of: route.vBucket, copy: copy) != nil
        if isMoving || operation.mapChanges != cache.changes { dispatch(operation) }
    }

    /// Selects the bucket again: the connection's bucket was deleted, and there may be a new one of
    /// that name.
    private func select(_ node: ClusterNode) {
        guard node.isReady, !node.isSelecting, let connection = node.connection else { return }
        node.isSelecting = true
        let ticket = nextNumber()
        addFlight(.selection, ticket, on: node)
        let name = Array(settings.bucket.utf8)
        let request = Request(.selectBucket, key: name, isWrite: false)
        connection.send(.init(ticket: ticket, vBucket: VBucketID(0), request: request))
    }

    /// Lets an operation back off before its next attempt.
    func backOff(_ operation: Operation, forMap: Bool) {
        operation.backOffs += 1
        let wait = RetryPolicy.wait(beforeAttempt: operation.backOffs + 1)
        backOff(operation, nanoseconds: wait, forMap: forMap)
    }

    private func backOff(_ operation: Operation, nanoseconds: UInt64, forMap: Bool) {
        let turn = nextNumber()
        operation.stage = .backingOff(turn: turn, forMap: forMap)
        schedule(.backOffEnded(operation: operation.number, turn: turn), after: nanoseconds)
    }

    /// Handles the end of the connection that an operation was sent on, or was about to be.
    func handleLostConnection(of operation: Operation, hadLeft: Bool, _ reason: String) {
        operation.trouble = reason
        operation.status = nil
        let ending = RetryPolicy.Ending.lost(hadLeft: hadLeft)
        switch RetryPolicy.decide(ending, isWrite: operation.request.isWrite) {
        case .fail(let code): finish(operation, .failure(operation.error(code)))
        default: backOff(operation, forMap: true)
        }
    }

    // MARK: Deadlines

    /// Ends an operation at its deadline, by its stage and its last failure.
    func expire(_ operation: Operation) {
        switch operation.stage {
        case .inFlight(let node, let ticket):
            let hadLeft = recall(ticket, from: node)
            operation.trouble = "\(node.address) did not answer"
            let isUnknown = hadLeft && operation.request.isWrite
            finish(operation, .failure(operation.error(isUnknown ? .ambiguous : .deadline)))
            sendWaiting(to: node)
        case .waiting(let node):
            operation.trouble = node.failure?.description ?? node.trouble ?? operation.trouble
            switch node.failure?.reason {
            case .authentication: finish(operation, .failure(operation.error(.authentication)))
            case .noBucket: finish(operation, .failure(operation.error(.noBucket)))
            default: finish(operation, .failure(operation.error(lastCode(of: operation))))
            }
        default: finish(operation, .failure(operation.error(lastCode(of: operation))))
        }
    }

    /// The error code at the deadline of an operation that is not in flight.
    private func lastCode(of operation: Operation) -> ClientError.Code {
        guard let number = operation.status else { return .unreachable }
        let code = Status(rawValue: number).map(RetryPolicy.code)
        return code == nil || code == .refused ? .deadline : code ?? .deadline
    }

    /// Withdraws a request, or ignores its answer if it was sent; returns whether it was sent.
    func recall(_ ticket: UInt64, from node: ClusterNode) -> Bool {
        node.flights[ticket] = nil
        guard node.connection?.withdraw(ticket) == true else { return true }
        node.unanswered -= 1
        return false
    }
}

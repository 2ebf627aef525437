internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// The way of an operation: routed, sent, answered, tried again, over.
extension ClientCore {
    func submit(
        _ request: Request,
        timeout: UInt64,
        _ complete: @escaping Operation.Completion
    ) {
        if case .closed = life {
            return complete(.failure(ClientError(.closed, "the client is closed")))
        }
        guard operations.count < settings.operationsMax,
            bytesUnderWay + request.byteCount <= settings.bytesMax
        else {
            let text =
                "\(operations.count) operations with \(bytesUnderWay) bytes are under way already"
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
        bytesUnderWay += request.byteCount
        enter(.deadline(operation: operation.number), after: timeout)
        dispatch(operation)
    }

    func finish(_ operation: Operation, _ result: Result<Operation.Reply, ClientError>) {
        operation.stage = .over
        operations[operation.number] = nil
        bytesUnderWay -= operation.request.byteCount
        callNext(after: operation)
        operation.complete(result)
    }

    /// Has the oldest operation go that waits for this one's document.
    private func callNext(after operation: Operation) {
        guard !lines.isEmpty else { return }
        if case .closed = life { return lines.removeAll() }
        let key = operation.request.key
        lines.leave(operation.number, key)
        while let number = lines.next(key) {
            guard let next = operations[number], case .resting(_, forMap: false) = next.stage
            else { continue }
            // By the agenda: whatever becomes of it, this does not call itself.
            return rest(next, nanoseconds: 0, forMap: false)
        }
    }

    // MARK: Going

    /// Sends an operation where the map says, or has it wait there.
    func dispatch(_ operation: Operation) {
        guard let map = cache.current else {
            operation.stage = .unrouted
            return
        }
        if operation.mapChanges != cache.changes {
            operation.mapChanges = cache.changes
            operation.refusedBy = nil
            operation.rests = 0
        }
        let router = KeyRouter(map)
        let request = operation.request
        let vBucket =
            request.vBucket ?? request.key.withUnsafeBytes { router.vBucket(of: ByteView($0)) }
        guard
            let route = router.route(vBucket, request.copy, refusedBy: operation.refusedBy)
        else {
            operation.stage = .unrouted
            operation.trouble = "map \(map.revision) gives this copy of \(vBucket) to nobody"
            return askForMap(isUrgent: true)
        }
        operation.route = route
        let node = node(at: route.node)
        operation.stage = .waiting(node)
        node.waiting.append(operation)
        if node.isReady { sendWaiting(to: node) } else { connectIfAllowed(node) }
    }

    /// Sends what has waited for a node, as far as its pipeline goes.
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
            preconditionFailure("only what has a route is sent, and only to a node that is ready")
        }
        guard needs.bits & node.features.bits == needs.bits else {
            operation.trouble = "\(node.address) does not offer what the request asks for"
            return finish(operation, .failure(operation.error(.unsupported)))
        }
        let ticket = nextNumber()
        operation.attempts += 1
        operation.stage = .flying(node, ticket: ticket)
        fly(.operation(operation), ticket, node)
        connection.send(.init(ticket: ticket, vBucket: route.vBucket, request: request))
    }

    func fly(_ flight: ClusterNode.Flight, _ ticket: UInt64, _ node: ClusterNode) {
        if node.unanswered == 0 { node.heard = now }
        node.unanswered += 1
        node.flights[ticket] = flight
    }

    // MARK: Coming back

    func take(_ answer: Answer, for operation: Operation, from node: ClusterNode) {
        operation.status = answer.status
        operation.trouble = ClientCore.context(of: answer)
        switch RetryPolicy.decide(
            .answered(answer.status),
            isWrite: operation.request.isWrite,
            waitsForLock: operation.request.waitsForLock
        ) {
        case .done:
            guard let route = operation.route else {
                preconditionFailure("what was answered had a route")
            }
            let reply = Operation.Reply(answer: answer, vBucket: route.vBucket, node: node.address)
            finish(operation, .success(reply))
        case .fail(let code): finish(operation, .failure(operation.error(code)))
        case .again:
            if RetryPolicy.waitsForAnother(answer.status) {
                lines.enter(operation.number, operation.request.key)
            }
            rest(operation, forMap: false)
        case .reselect:
            rest(operation, forMap: false)
            select(node)
        case .reconnect:
            rest(operation, forMap: false)
            node.connection?.close()
        case .reroute: reroute(operation, refusedBy: node, answer)
        }
    }

    /// What an error says beside its status.
    private static func context(of answer: Answer) -> String? {
        guard answer.status != Status.success.rawValue, answer.datatype.contains(.json),
            !answer.value.isEmpty, answer.value.count < 1_024
        else { return nil }
        return "the server says \(String(decoding: answer.value, as: UTF8.self))"
    }

    private func reroute(_ operation: Operation, refusedBy node: ClusterNode, _ answer: Answer) {
        operation.trouble = "\(node.address) says that the vBucket is not its own"
        let isFirst = operation.refusedBy == nil
        operation.refusedBy = node.address
        rest(operation, forMap: true)
        if answer.value.isEmpty {
            askForMap(of: node)
        } else {
            take(configuration: answer.value, from: node)
            // It knows no better than we do; somebody else may.
            if operation.mapChanges == cache.changes { askForMap(isUrgent: true) }
        }
        // Taking a newer map in has sent on whatever rests for one.
        guard case .resting = operation.stage, let map = cache.current, let route = operation.route
        else { return }
        // With the old map still: the node that the vBucket moves to may have it already.
        let copy = operation.request.copy.column
        let isMoving = isFirst && map.forwardNode(of: route.vBucket, copy: copy) != nil
        if isMoving || operation.mapChanges != cache.changes { dispatch(operation) }
    }

    /// The bucket that the connection had is gone; there may be one of its name again.
    private func select(_ node: ClusterNode) {
        guard node.isReady, !node.isSelecting, let connection = node.connection else { return }
        node.isSelecting = true
        let ticket = nextNumber()
        fly(.selection, ticket, node)
        let name = Array(settings.bucket.utf8)
        let request = Request(.selectBucket, key: name, isWrite: false)
        connection.send(.init(ticket: ticket, vBucket: VBucketID(0), request: request))
    }

    func rest(_ operation: Operation, forMap: Bool) {
        operation.rests += 1
        let wait = RetryPolicy.wait(beforeAttempt: operation.rests + 1)
        rest(operation, nanoseconds: wait, forMap: forMap)
    }

    private func rest(_ operation: Operation, nanoseconds: UInt64, forMap: Bool) {
        let turn = nextNumber()
        operation.stage = .resting(turn: turn, forMap: forMap)
        enter(.rested(operation: operation.number, turn: turn), after: nanoseconds)
    }

    /// The connection that it was sent on has ended.
    func lose(_ operation: Operation, hadLeft: Bool, _ reason: String) {
        operation.trouble = reason
        operation.status = nil
        let ending = RetryPolicy.Ending.lost(hadLeft: hadLeft)
        switch RetryPolicy.decide(ending, isWrite: operation.request.isWrite) {
        case .fail(let code): finish(operation, .failure(operation.error(code)))
        default: rest(operation, forMap: true)
        }
    }

    // MARK: The end of patience

    func expire(_ operation: Operation) {
        switch operation.stage {
        case .flying(let node, let ticket):
            let hadLeft = recall(ticket, from: node)
            operation.trouble = "\(node.address) has not answered"
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

    private func lastCode(of operation: Operation) -> ClientError.Code {
        guard let number = operation.status else { return .unreachable }
        let code = Status(rawValue: number).map(RetryPolicy.code)
        return code == nil || code == .refused ? .deadline : code ?? .deadline
    }

    /// Nobody waits for this answer any more; whether the request had left.
    func recall(_ ticket: UInt64, from node: ClusterNode) -> Bool {
        node.flights[ticket] = nil
        guard node.connection?.withdraw(ticket) == true else { return true }
        node.unanswered -= 1
        return false
    }
}

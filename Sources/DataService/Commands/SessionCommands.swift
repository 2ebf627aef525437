internal import Bytes
internal import JSON
internal import Vocabulary
internal import Wire

extension Connection {
    /// The features that HELLO may agree on: only supported ones.
    static let offered = FeatureSet([
        .tcpNoDelay, .mutationSeqno, .extendedErrors, .selectBucket, .json, .unorderedExecution,
        .tracing, .alternativeRequest, .syncReplication, .preserveTTL,
        .clusterConfigWithKnownVersion, .duplex, .clusterMapNotification,
        .clusterMapNotificationBrief, .snappy, .subdocReplicaRead, .xattr, .virtualXattr,
        .createAsDeleted, .subdocDocumentMacro, .subdocReplaceBodyWithXattr, .subdocManyXattrKeys,
        .subdocBinaryXattr,
    ])

    func hello(_ request: CommandContext) {
        guard let requested = FeatureSet(request.frame.value) else {
            return answer(.invalid, request, "The value has to be a list of two-byte features.")
        }
        guard let agreed = FeatureSet.agreed(requested: requested, offered: Connection.offered)
        else {
            return answer(.invalid, request, "Map notifications need the duplex feature.")
        }
        // The answer has the format from before: the client does not know the new features yet.
        let duration = duration
        features = agreed
        updateSubscription()
        noteAgent(request.frame.key)
        context.scratch.removeAll()
        agreed.append(inOrderOf: request.frame.value, to: context.scratch)
        ResponseEncoder.append(
            .success,
            to: output,
            replyTo: request.replyTo,
            value: context.scratch.view,
            duration: duration
        )
    }

    /// Stores the client's name from JSON (`{"a":..}`) or plain text; for the trace only.
    private func noteAgent(_ key: ByteView) {
        let name = JSONValue.parse(key)?["a"]?.string ?? key.text
        agent = String(
            name.unicodeScalars.filter { $0.value >= 0x20 && $0.value < 0x7f }.prefix(80)
        )
    }

    func errorMap(_ request: CommandContext) {
        let value = request.frame.value
        guard value.count == 2,
            let json = ErrorMap.json(versionAsked: value.bigEndian(at: 0, as: UInt16.self))
        else {
            return answer(.invalid, request, "Error maps begin at version 1.")
        }
        answerJSON(json, request)
    }

    func version(_ request: CommandContext) {
        service.version.withView { respond(request, .success, value: $0) }
    }

    /// Selects the connection's bucket; status 0x24 makes clients stop at once.
    func selectBucket(_ request: CommandContext) {
        let name = request.frame.key.text
        guard let found = service.bucket(named: name) else {
            // The cluster has the bucket, but this node has not opened it yet: clients retry.
            let isComing = mayUse(bucketNamed: name) && service.configuration(ofBucket: name) != nil
            return answer(
                isComing ? .keyNotFound : .accessDenied,
                request,
                isComing
                    ? "The bucket \(name) is not open on this node yet."
                    : "There is no bucket \(name), or you may not use it."
            )
        }
        guard mayUse(found) else {
            return answer(
                .accessDenied,
                request,
                "There is no bucket \(name), or you may not use it."
            )
        }
        bucket = found
        lostBucketName = nil
        recordMapScope()
        answer(.success, to: request.replyTo)
    }

    /// Answers with the cluster's configuration or the selected bucket's; without a value if the
    /// client has it.
    func clusterConfig(_ request: CommandContext) {
        guard mayReceiveConfiguration else {
            let text = "The user has no privilege in the selected bucket any more."
            return answer(.accessDenied, request, text)
        }
        let current = currentConfiguration
        guard current != nil || lostBucketName == nil else {
            let text = "The selected bucket was deleted, or this node has no map of it yet."
            return answer(.noBucket, request, text)
        }
        guard let configuration = current else {
            return answer(.keyNotFound, request, "There is no configuration yet.")
        }
        let extras = request.frame.extras
        if extras.count == 16 {
            let epoch = extras.bigEndian(at: 0, as: Int64.self)
            let revision = extras.bigEndian(at: 8, as: Int64.self)
            if (epoch, revision) >= (configuration.epoch, configuration.revision) {
                return answer(.success, to: request.replyTo)
            }
        }
        answerJSON(configuration.json, request)
    }

    func answerJSON(_ json: [UInt8], _ request: CommandContext) {
        json.withUnsafeBytes { buffer in
            respond(request, .success, datatype: isJSONAgreed ? .json : [], value: ByteView(buffer))
        }
    }

    /// Flushes the bucket: plain memcached listeners only, whose clients have no other way.
    func flush(_ request: CommandContext, _ completion: Completion?) -> Execution {
        guard isMemcachedListener else {
            return refuse(request, .notSupported, "Flush the bucket over the admin interface.")
        }
        let extras = request.frame.extras
        let delay = extras.isEmpty ? 0 : extras.bigEndian(at: 0, as: UInt32.self)
        guard delay == 0 else {
            return refuse(request, .notSupported, "A flush cannot be delayed.")
        }
        if let reason = service.writeHolds.reason {
            return refuse(request, .temporaryFailure, reason)
        }
        switch completion {
        case .failed(let status, let reason):
            return refuse(request, status, reason)
        case .done, .ready, .admitted, .roomMade, .loggedIn, .durable, .subDocument:
            findBucketAgain()
            if !request.command.isQuiet { answer(.success, to: request.replyTo) }
            return .done
        case nil:
            let name = selectedBucket.name
            guard !selectedBucket.isShared else {
                answer(
                    .notSupported,
                    request,
                    "Other nodes have copies of this bucket. Flush it over the admin "
                        + "interface."
                )
                return .done
            }
            return wait(request, .lane) { done in service.flushInBackground(name, done) }
        }
    }
}

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
        .clusterMapNotificationBrief,
    ])

    func hello(_ exchange: Exchange) {
        guard let requested = FeatureSet(exchange.frame.value) else {
            return answer(
                .invalid,
                to: exchange.replyTo,
                because: "The value has to be a list of two-byte features."
            )
        }
        guard let agreed = FeatureSet.agreed(requested: requested, offered: Connection.offered)
        else {
            return answer(
                .invalid,
                to: exchange.replyTo,
                because: "Map notifications need the duplex feature."
            )
        }
        // The answer has the format from before: the client does not know the new features yet.
        let duration = duration
        features = agreed
        noteSubscription()
        noteAgent(exchange.frame.key)
        context.scratch.removeAll()
        agreed.append(inOrderOf: exchange.frame.value, to: context.scratch)
        ResponseEncoder.append(
            .success,
            to: output,
            replyTo: exchange.replyTo,
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

    func errorMap(_ exchange: Exchange) {
        let value = exchange.frame.value
        guard value.count == 2,
            let json = ErrorMap.json(versionAsked: value.bigEndian(at: 0, as: UInt16.self))
        else {
            return answer(.invalid, to: exchange.replyTo, because: "Error maps begin at version 1.")
        }
        answerJSON(json, exchange)
    }

    func version(_ exchange: Exchange) {
        var text = service.version
        text.withUTF8 { buffer in
            ResponseEncoder.append(
                .success,
                to: output,
                replyTo: exchange.replyTo,
                value: ByteView(UnsafeRawBufferPointer(buffer)),
                duration: duration
            )
        }
    }

    /// Selects the connection's bucket; status 0x24 makes clients stop at once.
    func selectBucket(_ exchange: Exchange) {
        let name = exchange.frame.key.text
        guard let found = service.bucket(named: name) else {
            // The cluster has the bucket, but this node has not opened it yet: clients retry.
            let isComing = mayUse(bucketNamed: name) && service.configuration(ofBucket: name) != nil
            return answer(
                isComing ? .keyNotFound : .accessDenied,
                to: exchange.replyTo,
                because: isComing
                    ? "The bucket \(name) is not open on this node yet."
                    : "There is no bucket \(name), or you may not use it."
            )
        }
        guard mayUse(found) else {
            return answer(
                .accessDenied,
                to: exchange.replyTo,
                because: "There is no bucket \(name), or you may not use it."
            )
        }
        bucket = found
        lostBucketName = nil
        noteMapScope()
        answer(.success, to: exchange.replyTo)
    }

    /// Answers with the cluster's configuration or the selected bucket's; without a value if the
    /// client has it.
    func clusterConfig(_ exchange: Exchange) {
        guard let configuration = currentConfiguration else {
            return answer(
                .keyNotFound,
                to: exchange.replyTo,
                because: "There is no configuration yet."
            )
        }
        let extras = exchange.frame.extras
        if extras.count == 16 {
            let epoch = extras.bigEndian(at: 0, as: Int64.self)
            let revision = extras.bigEndian(at: 8, as: Int64.self)
            if (epoch, revision) >= (configuration.epoch, configuration.revision) {
                return answer(.success, to: exchange.replyTo)
            }
        }
        answerJSON(configuration.json, exchange)
    }

    func answerJSON(_ json: [UInt8], _ exchange: Exchange) {
        json.withUnsafeBytes { buffer in
            ResponseEncoder.append(
                .success,
                to: output,
                replyTo: exchange.replyTo,
                datatype: isJSONAgreed ? .json : [],
                value: ByteView(buffer),
                duration: duration
            )
        }
    }

    /// Flushes the bucket: plain memcached listeners only, whose clients have no other way.
    func flush(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        guard isPlain else {
            answer(
                .notSupported,
                to: exchange.replyTo,
                because: "Flush the bucket over the admin interface."
            )
            return .done
        }
        let extras = exchange.frame.extras
        let delay = extras.isEmpty ? 0 : extras.bigEndian(at: 0, as: UInt32.self)
        guard delay == 0 else {
            answer(.notSupported, to: exchange.replyTo, because: "A flush cannot be delayed.")
            return .done
        }
        switch completion {
        case .failed(let status, let reason):
            answer(status, to: exchange.replyTo, because: reason)
            return .done
        case .done, .ready, .roomMade, .durable:
            findBucketAgain()
            if !exchange.command.isQuiet { answer(.success, to: exchange.replyTo) }
            return .done
        case nil:
            let name = selectedBucket.name
            guard !selectedBucket.isShared else {
                answer(
                    .notSupported,
                    to: exchange.replyTo,
                    because: "Other nodes have copies of this bucket. Flush it over the admin "
                        + "interface."
                )
                return .done
            }
            return wait(exchange) { done in service.flushInBackground(name, done) }
        }
    }
}

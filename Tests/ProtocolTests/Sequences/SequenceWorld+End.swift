/// The end of a walk: everything works again, and the newest versions must arrive.
extension SequenceWorld {
    private static let roundsMax = 60

    mutating func end() {
        isEnding = true
        for node in 0..<size { nodes[node].isSilent = false }
        for node in 0..<size where latest.members.contains(node) { start(node) }
        for reader in 0..<Self.readers where !nodes[readers[reader].collector].isUp {
            readers[reader].collector = Int(latest.owner[0])
            readers[reader].page.isOpen = false
        }
        for round in 0..<Self.roundsMax {
            repairRound()
            if violation != nil { return }
            if round >= 4, isFinished { break }
        }
        check()
    }

    private mutating func repairRound() {
        for node in 0..<size {
            applyMap(node)
            if !nodes[node].isUp { continue }
            if !latest.members.contains(node), mapCount < Self.mapsMax - 1 { returnMember(node) }
            for member in 0..<size { continueHandshake(node, member) }
        }
        for vBucket in 0..<Self.vBuckets {
            importForeign(vBucket)
            for node in 0..<size { replicate(vBucket, to: node) }
            completePrepare(vBucket, 1)
            for node in 0..<size { replicate(vBucket, to: node) }
        }
        for node in 0..<size {
            for other in 0..<size { openStreams(node, other) }
            beginPass(node)
            recordPass(node)
            for _ in 0..<3 { releasePass(node) }
            advanceIndex(node)
        }
        for node in 0..<size {
            for other in 0..<size { receive(node, other, count: Connection.messagesMax) }
        }
        for reader in 0..<Self.readers {
            for _ in 0..<5 { read(reader) }
        }
    }

    /// The place after the newest version of a key; 0 if there is none.
    private func newest(_ key: Int) -> Int16 {
        let history = histories[key / 3]
        return Int16(history.newestVersion(of: key % 3, below: history.count) + 1)
    }

    private func hasNewest(_ reader: Int) -> Bool {
        let place = histories[0].newestVersion(of: 2, below: histories[0].count)
        let grant = place < 0 ? 0 : histories[0][place].granted
        for key in 0..<9 where Reader.channel(of: key) == 0 || key % 3 == 1 && grant > 0 {
            if readers[reader].received[key] != newest(key) { return false }
        }
        return true
    }

    private func hasNewest(collector node: Int) -> Bool {
        let collector = nodes[node].collector
        for key in 0..<9 where newest(key) > 0 {
            let place = Int(newest(key)) - 1
            if histories[key / 3][place].sequence <= collector.origin { continue }
            if collector.newest[key] != newest(key) { return false }
        }
        return true
    }

    private var isFinished: Bool {
        for reader in 0..<Self.readers where !hasNewest(reader) { return false }
        for node in 0..<size where nodes[node].isUp && !hasNewest(collector: node) {
            return false
        }
        return true
    }

    private mutating func check() {
        for node in 0..<size where nodes[node].isUp && !hasNewest(collector: node) {
            report(.newest)
        }
        for reader in 0..<Self.readers where !hasNewest(reader) { report(.roam) }
    }
}

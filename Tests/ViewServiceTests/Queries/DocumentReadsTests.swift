import Testing
import ViewService

/// How many documents of `include_docs` are read at a time.
@Suite struct DocumentReadsTests {
    @Test func concurrentReadsAreBounded() {
        var reads = DocumentReads(count: 10)
        var places: [Int] = []
        while let place = reads.begin() { places.append(place) }
        #expect(places == Array(0..<DocumentReads.readsMax))
        reads.end(bytes: 100)
        let next = [reads.begin(), reads.begin()]
        #expect(next == [DocumentReads.readsMax, nil])
    }

    @Test(arguments: [
        // The bytes of each document, and how many of 64 are read.
        (100, 64), (1 << 20, 11), (20 << 20, 4), (0, 64),
    ])
    func readsOfARoundEndAtTheByteBound(_ bytes: Int, _ count: Int) {
        var reads = DocumentReads(count: 64)
        repeat {
            while reads.begin() != nil {}
            reads.end(bytes: bytes)
        } while reads.running > 0
        #expect(reads.begun == count)
    }

    @Test func roundWithoutDocumentsStartsNoRead() {
        var reads = DocumentReads(count: 0)
        let place = reads.begin()
        #expect(place == nil)
    }
}

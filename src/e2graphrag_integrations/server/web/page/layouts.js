// Positions of the entities in a drawing. They depend only on the graph and the size, so equal graphs look equal.

const INNER_RING = 10;

/**
 * Return positions on rings that fill the drawing, each larger than the one before. The nodes that are nearest to the
 * center by the edges are inside, and of equally near ones the first.
 */
export function ringPlaces(nodes, edges, center, { width, height }) {
  const distances = distancesFrom(center, edges);
  const far = ({ name }) => distances.get(name) ?? nodes.length;
  const others = nodes.filter((node) => node.name !== center).sort((one, other) => far(one) - far(other));
  const places = new Map(others.length < nodes.length ? [[center, { x: 0, y: 0 }]] : []);
  const rings = [];
  for (let first = 0; first < others.length; first += rings.at(-1).length) {
    rings.push(others.slice(first, first + INNER_RING * (rings.length + 1)));
  }
  const [stepX, stepY] = [(width / 2 - 60) / rings.length, (height / 2 - 40) / rings.length];
  rings.forEach((ring, place) => {
    ring.forEach((node, index) => {
      const angle = (2 * Math.PI * (index + (place % 2 ? 0.5 : 0))) / ring.length - Math.PI / 2;
      places.set(node.name, { x: stepX * (place + 1) * Math.cos(angle), y: stepY * (place + 1) * Math.sin(angle) });
    });
  });
  return places;
}

/** Return the number of edges from one node to each that can be reached. */
function distancesFrom(center, edges) {
  const neighbors = new Map();
  for (const { source, target } of edges) {
    for (const [one, other] of [[source, target], [target, source]]) neighbors.set(one, [...(neighbors.get(one) ?? []), other]);
  }
  const distances = new Map([[center, 0]]);
  for (const name of distances.keys()) { // the map grows meanwhile
    for (const next of neighbors.get(name) ?? []) {
      if (!distances.has(next)) distances.set(next, distances.get(name) + 1);
    }
  }
  return distances;
}

/** Return the options of a layout in which edges pull and nodes push; heavy edges are short. */
export function forceLayout(heaviest) {
  return {
    name: "cose",
    animate: false,
    randomize: false, // from the rings, so that equal graphs look equal
    fit: false,
    nodeDimensionsIncludeLabels: true,
    nodeRepulsion: () => 60_000,
    nodeOverlap: 20,
    idealEdgeLength: (edge) => 140 - (60 * edge.data("weight")) / heaviest,
    gravity: 0.4,
    numIter: 600,
  };
}

/** Return positions of paths from left to right, one below the other; a shared entity has one place. */
export function pathPlaces(paths) {
  const places = new Map();
  const width = 170 * Math.max(...paths.map((path) => path.entities.length - 1));
  paths.forEach((path, row) => {
    path.entities.forEach((name, index) => {
      if (!places.has(name)) places.set(name, { x: (width * index) / (path.entities.length - 1), y: 90 * row });
    });
  });
  const middle = (90 * (paths.length - 1)) / 2;
  for (const end of [paths[0].entities[0], paths[0].entities.at(-1)]) places.get(end).y = middle;
  return places;
}

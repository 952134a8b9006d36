// Pictures as RGBA bytes: reading PNG and JPEG, resizing, cutting a tilted rectangle out straight, and the tensors that
// PP-OCR's networks take. Channels are fed in the order blue, green, red, which is how they were trained.
import { readFileSync } from 'node:fs';
import jpeg from '@cwasm/jpeg-turbo';
import { PNG } from 'pngjs';
import { Tensor } from 'skep';

/** @typedef {{ width: number, height: number, data: Uint8Array | Uint8ClampedArray }} Image RGBA, row by row */

/** Reads a PNG or JPEG file, told apart by its first bytes. @returns {Image} */
export function readImage(file) {
  const bytes = readFileSync(file);
  if (bytes.readUInt32BE(0) === 0x89504e47) return PNG.sync.read(bytes);
  if (bytes.readUInt16BE(0) === 0xffd8) return jpeg.decode(bytes);
  throw new Error(`${file} is neither PNG nor JPEG`);
}

/** Bilinear resize, pixel centres aligned. @returns {Image} */
export function resize(image, width, height) {
  const corners = [
    [0, 0],
    [image.width, 0],
    [image.width, image.height],
    [0, image.height],
  ];
  return warp(image, corners, width, height);
}

/**
 * Cuts out the quadrilateral with these corners (clockwise from top left) and makes it a rectangle of this size.
 * @returns {Image}
 */
export function warp(image, corners, width, height) {
  const data = new Uint8Array(width * height * 4);
  const map = projection(corners);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const [u, v] = map((x + 0.5) / width, (y + 0.5) / height);
      sample(image, u - 0.5, v - 0.5, data, (y * width + x) * 4);
    }
  }
  return { width, height, data };
}

/** The projective map from the unit square to a quadrilateral (Heckbert 1989, section 2.2.3). */
function projection([[x0, y0], [x1, y1], [x2, y2], [x3, y3]]) {
  const sx = x0 - x1 + x2 - x3;
  const sy = y0 - y1 + y2 - y3;
  const [dx1, dy1, dx2, dy2] = [x1 - x2, y1 - y2, x3 - x2, y3 - y2];
  const determinant = dx1 * dy2 - dx2 * dy1;
  const g = (sx * dy2 - dx2 * sy) / determinant;
  const h = (dx1 * sy - sx * dy1) / determinant;
  const [a, b] = [x1 - x0 + g * x1, x3 - x0 + h * x3];
  const [d, e] = [y1 - y0 + g * y1, y3 - y0 + h * y3];
  return (u, v) => {
    const w = g * u + h * v + 1;
    return [(a * u + b * v + x0) / w, (d * u + e * v + y0) / w];
  };
}

function sample({ width, height, data }, x, y, into, at) {
  const cx = Math.min(Math.max(x, 0), width - 1);
  const cy = Math.min(Math.max(y, 0), height - 1);
  const left = Math.floor(cx);
  const top = Math.floor(cy);
  const right = Math.min(left + 1, width - 1);
  const bottom = Math.min(top + 1, height - 1);
  const fx = cx - left;
  const fy = cy - top;
  for (let c = 0; c < 4; c++) {
    const above = data[(top * width + left) * 4 + c] * (1 - fx) + data[(top * width + right) * 4 + c] * fx;
    const below = data[(bottom * width + left) * 4 + c] * (1 - fx) + data[(bottom * width + right) * 4 + c] * fx;
    into[at + c] = Math.round(above * (1 - fy) + below * fy);
  }
}

/**
 * A float32 tensor [1, 3, height, width]: (value / 255 − mean) / std by channel. When `width` is more than the image's,
 * what is to its right is 0.
 */
export function toTensor(image, mean, std, width = image.width) {
  const { height, data } = image;
  const values = new Float32Array(3 * height * width);
  for (let c = 0; c < 3; c++)
    for (let y = 0; y < height; y++)
      for (let x = 0; x < image.width; x++)
        values[(c * height + y) * width + x] = (data[(y * image.width + x) * 4 + 2 - c] / 255 - mean[c]) / std[c];
  return new Tensor('float32', values, [1, 3, height, width]);
}
